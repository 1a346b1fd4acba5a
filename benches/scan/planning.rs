//! Planning a query with a long IN list: the cost of a value must not grow with the
//! length of the list.

use std::time::Instant;

use crate::Outcome;
use crate::ours;
use crate::shape::Reading;

/// Microseconds that planning takes for each value of lists of these lengths.
pub(crate) async fn cost_per_value(reading: &Reading, lengths: &[usize]) -> Outcome<Vec<f64>> {
    let context = ours::session(reading)?;
    let mut costs = Vec::new();
    for &length in lengths {
        let values: Vec<String> = (0..length).map(|n| (n * 7).to_string()).collect();
        let sql = format!(
            "{} WHERE l_orderkey IN ({})",
            ours::statement(reading),
            values.join(", ")
        );
        let mut fastest = f64::INFINITY;
        for _ in 0..3 {
            let began = Instant::now();
            context.sql(&sql).await?.create_physical_plan().await?;
            fastest = fastest.min(began.elapsed().as_secs_f64());
        }
        costs.push(fastest * 1e6 / length as f64);
    }
    Ok(costs)
}
