//! The admission server.
pub mod judge;
pub mod live;
mod recent;
