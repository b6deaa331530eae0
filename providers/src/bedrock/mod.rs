//! AWS Bedrock: what its endpoints need beyond the dialect that is spoken there.

pub mod sign;
