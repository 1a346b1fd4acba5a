//! Complaints that users of other connectors had in public, as tests: each is
//! named after its entry, a letter for the area and a number.
//!
//! | not tried | why |
//! |---|---|
//! | C11 INSERT of some of the columns | nothing writes yet |
//! | D04 MERGE with columns `target` and `source`, D06 prefixes of new columns, D10 names of written fields | nothing writes yet |
//! | I07 rows in the streaming buffer | the old interface had them apart; C04 reads rows just streamed |
//! | J05, J06 external accounts | they need an identity provider; the unit tests of `auth` read their configurations |
//! | J08 an append that changes the table | nothing writes yet |
//! | U11 a REQUIRED column left out of INSERT | nothing writes yet |

mod c_columns;
mod d_names;
mod e_catalog;
mod h_streams;
mod i_views;
mod j_auth;
mod u_wishes;
