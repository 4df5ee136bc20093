//! A made-up network and a browser.

pub(crate) mod browser;
pub(crate) mod made_up;
