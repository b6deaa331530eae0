-- How an amount came about.
ALTER TABLE ledger ADD COLUMN price_fallback INTEGER NOT NULL DEFAULT 0; -- 1: another price stood in
ALTER TABLE ledger ADD COLUMN rule TEXT; -- NULL: charged by nothing, or before rules were recorded
