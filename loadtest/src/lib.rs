//! The outside world, played: scripted vendors, clients and load.
