//! ROUTINES.

use super::super::env::Env;
use super::{Of, S, T, View, millis, shown, text};
use crate::error::Result;
use crate::store::RoutineKind;

pub(super) fn routines(env: &Env, of: &Of) -> Result<View> {
    let mut view = View::new(&[
        ("specific_catalog", S),
        ("specific_schema", S),
        ("specific_name", S),
        ("routine_catalog", S),
        ("routine_schema", S),
        ("routine_name", S),
        ("routine_type", S),
        ("routine_body", S),
        ("created", T),
        ("last_altered", T),
        ("ddl", S),
    ]);
    env.service.store.read(|state| {
        if let Of::Dataset(dataset) = of
            && state.dataset(dataset).is_none()
        {
            return Err(env.no_dataset(dataset));
        }
        for (reference, routine) in state.routines() {
            let own = &reference.dataset;
            let wanted = match of {
                Of::Dataset(dataset) => own == dataset,
                Of::Region(project, region) => {
                    own.project == *project
                        && shown(own)
                        && state
                            .dataset(own)
                            .is_some_and(|meta| meta.location.eq_ignore_ascii_case(region))
                }
            };
            if !wanted {
                continue;
            }
            let kind = match routine.kind {
                RoutineKind::Function => "FUNCTION",
                RoutineKind::TableFunction => "TABLE FUNCTION",
                RoutineKind::Procedure => "PROCEDURE",
            };
            let name = || {
                [
                    text(&own.project),
                    text(&own.dataset),
                    text(&reference.name),
                ]
            };
            let mut row = Vec::from(name());
            row.extend(name());
            row.extend([
                text(kind),
                text("SQL"),
                millis(routine.creation_time),
                millis(routine.last_modified_time),
                text(&routine.text),
            ]);
            view.rows.push(row);
        }
        Ok(view)
    })
}
