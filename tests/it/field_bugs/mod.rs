//! Complaints that users of other connectors had in public, as tests: each is
//! named after its entry, a letter for the area and a number.
//!
//! | not tried | why |
//! |---|---|
//! | H16 DDL through a query path asks for a read session | a statement of BigQuery's own is not read with a session here |
//! | U11 a REQUIRED column left out of INSERT | nothing writes yet |

mod h_streams;
mod u_wishes;
