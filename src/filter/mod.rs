//! Predicates of the engine as row restrictions of the service.
//!
//! A restriction must accept every row that the engine's predicate accepts; it
//! may accept more where the engine evaluates the predicate again. What is
//! known about a restriction is in its type ([`condition`]), which expressions
//! have one is in one table ([`rules`]), and one printer writes it down
//! ([`print`]). Nothing here does I/O.
//!
//! | module | what |
//! |---|---|
//! | [`predicate`] | the shapes that matter, without DataFusion's many spellings |
//! | [`shape`] | DataFusion's expressions, [`logical`] and [`physical`], as those shapes |
//! | [`rules`] | leaf by leaf: what to say and why it is sound |
//! | [`axis`] | comparisons through monotone functions as thresholds |
//! | [`translate`] | AND, OR and NOT |
//! | [`user`] | what the user wrote, so that it can stand next to ours |
//! | [`restriction`] | the text with its size limit |
//! | [`mention`] | whether a text names a column |

pub(crate) mod axis;
pub(crate) mod condition;
mod functions;
pub(crate) mod literal;
mod logical;
pub(crate) mod mention;
mod physical;
pub(crate) mod predicate;
pub(crate) mod print;
pub(crate) mod restriction;
pub(crate) mod rules;
mod shape;
pub(crate) mod translate;
pub(crate) mod user;

#[cfg(test)]
mod googlesql;
#[cfg(test)]
mod soundness;
#[cfg(test)]
mod tests;
