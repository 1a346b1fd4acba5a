//! Complaints that users of other connectors had in public, as tests: each is
//! named after its entry, a letter for the area and a number. Those about writing stand
//! beside the other tests of what they are about, in `sink_*.rs`, `load_*.rs`,
//! `repeatable.rs` and `overwrite.rs`.
//!
//! | not tried | why |
//! |---|---|
//! | A09 literals that arrive as another date or time type | needs no server: tested beside the translation in `src/filter/tests.rs` |
//! | G09 an INTERVAL column fails with INTERNAL | the service delivers INTERVAL by now; that a status that stays is not retried for ever is in `read_faults.rs` |
//! | I07 rows in the streaming buffer | the old interface had them apart; C04 reads rows just streamed |
//! | J05, J06 external accounts | they need an identity provider; the unit tests of `auth` read their configurations |
//! | M14 a JSON integer beyond 64 bits, stored as FLOAT64 | text of a JSON column goes to the service as it is, and the service decides; of decimals see `m_values.rs` |
//! | P06 DELETE without WHERE | no DELETE is ever made: rows are replaced by load, copy and query jobs |
//! | R02 attempts and waits | needs no server: tested on a clock of its own in `src/client/retry.rs` |
//! | R07 a session that is never made | a call is given up after a constant two minutes, which no test waits for |

mod a_literals;
mod b_filters;
mod c_columns;
mod d_names;
mod e_catalog;
mod f_temporal;
mod g_nested;
mod h_streams;
mod i_views;
mod j_auth;
mod loads;
mod m_values;
mod n_schemas;
mod one_table;
mod q_changes;
mod r_operations;
mod u_wishes;
