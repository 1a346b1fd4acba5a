//! DataFusion's physical expressions, as they are written.
//!
//! Joins make predicates that no statement contains: bounds and lists of keys
//! in a filter that is completed while the query runs, routed by a hash to the
//! part of the keys that a partition has.

use std::sync::Arc;

use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr,
    IsNullExpr, LikeExpr, Literal, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::functions::Known;
use super::predicate::Step;
use super::shape::{Shape, Shaped};

impl Shaped for Arc<dyn PhysicalExpr> {
    fn shape(&self) -> Shape<'_, Self> {
        if let Some(column) = self.downcast_ref::<Column>() {
            Shape::Column(column.name())
        } else if let Some(literal) = self.downcast_ref::<Literal>() {
            Shape::Literal(literal.value())
        } else if let Some(binary) = self.downcast_ref::<BinaryExpr>() {
            Shape::Binary(binary.left(), *binary.op(), binary.right())
        } else if let Some(not) = self.downcast_ref::<NotExpr>() {
            Shape::Not(not.arg())
        } else if let Some(test) = self.downcast_ref::<IsNullExpr>() {
            Shape::IsNull(test.arg())
        } else if let Some(test) = self.downcast_ref::<IsNotNullExpr>() {
            Shape::IsNotNull(test.arg())
        } else if let Some(test) = self.downcast_ref::<InListExpr>() {
            Shape::In(test.expr(), test.list(), test.negated().into())
        } else if let Some(like) = self.downcast_ref::<LikeExpr>() {
            match like.case_insensitive() {
                true => Shape::Other,
                false => Shape::Like(like.expr(), like.pattern(), like.negated().into()),
            }
        } else if let Some(cast) = self.downcast_ref::<CastExpr>() {
            let to = cast.cast_type().clone();
            Shape::Convert(
                cast.expr(),
                match cast.cast_options().safe {
                    true => Step::TryCast(to),
                    false => Step::Cast(to),
                },
            )
        } else if let Some(cast) = self.downcast_ref::<TryCastExpr>() {
            Shape::Convert(cast.expr(), Step::TryCast(cast.cast_type().clone()))
        } else if let Some(function) = self.downcast_ref::<ScalarFunctionExpr>() {
            match Known::of(function.fun()) {
                Some(known) => Shape::Call(known, function.args()),
                None => Shape::Other,
            }
        } else if let Some(case) = self.downcast_ref::<CaseExpr>() {
            let branches = case.when_then_expr();
            Shape::Case {
                subject: case.expr(),
                whens: branches.iter().map(|(when, _)| when).collect(),
                thens: branches.iter().map(|(_, then)| then).collect(),
                otherwise: case.else_expr(),
            }
        } else if let Some(filter) = self.downcast_ref::<DynamicFilterPhysicalExpr>() {
            match filter.current() {
                Ok(current) => Shape::Snapshot(current),
                Err(_) => Shape::Other,
            }
        } else {
            Shape::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray, StructArray};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::{DFSchema, ScalarValue};
    use datafusion::functions::core::r#struct as struct_function;
    use datafusion::logical_expr::Operator;
    use datafusion::logical_expr::expr_rewriter::unnormalize_col;
    use datafusion::physical_expr::expressions::{binary, case, col, is_null, lit, not};
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::filter::condition::Condition;
    use crate::filter::restriction::{Admission, Restriction};
    use crate::filter::rules::RULES;
    use crate::filter::tests::{arrow, offered, sample};
    use crate::filter::translate::{translate, translate_physical};

    type Physical = Arc<dyn PhysicalExpr>;

    fn schema() -> Schema {
        arrow(&sample())
    }

    fn column(name: &str) -> Physical {
        col(name, &schema()).unwrap()
    }

    fn both(left: Physical, operator: Operator, right: Physical) -> Physical {
        binary(left, operator, right, &schema()).unwrap()
    }

    fn text_of(condition: Option<Condition>) -> String {
        let mut restriction = Restriction::of_user(None);
        if let Some(condition) = condition {
            assert_eq!(restriction.admit(&condition), Admission::Whole);
        }
        restriction.text()
    }

    fn text(expr: &Physical) -> String {
        text_of(translate_physical(&sample(), expr).map(Condition::from))
    }

    /// `column BETWEEN low AND high`, as joins write it.
    fn bounds(name: &str, low: i64, high: i64) -> Physical {
        let low = both(column(name), Operator::GtEq, lit(low));
        let high = both(column(name), Operator::LtEq, lit(high));
        both(low, Operator::And, high)
    }

    fn keys(name: &str, values: ArrayRef) -> Physical {
        Arc::new(InListExpr::try_new_from_array(column(name), values, false, &schema()).unwrap())
    }

    /// Something that has no translation.
    fn look_up() -> Physical {
        let sum = both(column("n"), Operator::Plus, lit(1_i64));
        both(sum, Operator::Eq, lit(1_i64))
    }

    #[tokio::test]
    async fn every_example_reads_the_same_in_both_languages() {
        let context = SessionContext::new();
        let table = DFSchema::try_from(schema()).unwrap();
        let mut pushed = 0;
        for rule in RULES {
            for (predicate, _) in rule.examples {
                for filter in offered(predicate).await {
                    let filter = unnormalize_col(filter);
                    let physical = context
                        .create_physical_expr(filter.clone(), &table)
                        .unwrap();
                    let logical = text_of(translate(&sample(), &filter));
                    assert_eq!(text(&physical), logical, "{predicate}");
                    pushed += usize::from(!logical.is_empty());
                }
            }
        }
        assert!(pushed >= RULES.len());
    }

    #[test]
    fn join_keys_are_bounds_and_a_list() {
        // Of all rows of the join's side, many of which may be alike.
        let values = Arc::new(Int64Array::from(vec![1, 5, 1, 9, 5, 9]));
        let filter = both(bounds("n", 1, 9), Operator::And, keys("n", values));
        assert_eq!(
            text(&filter),
            "(`n` >= 1) AND (`n` <= 9) AND (`n` IN (1, 5, 9))"
        );
        // A look-up in a hash table is left out.
        let filter = both(bounds("n", 1, 9), Operator::And, look_up());
        assert_eq!(text(&filter), "(`n` >= 1) AND (`n` <= 9)");
        // NULL keys that match NULL.
        let null = is_null(column("n")).unwrap();
        let filter = both(null, Operator::Or, bounds("n", 1, 9));
        assert_eq!(
            text(&filter),
            "((`n` IS NULL) OR ((`n` >= 1) AND (`n` <= 9)))"
        );
    }

    #[test]
    fn many_keys_are_one_list() {
        let values = Arc::new(Int64Array::from_iter_values(0..50_000));
        let found = text(&keys("n", values));
        assert!(found.starts_with("(`n` IN (0, 1, 2, "), "{}", &found[..40]);
        assert!(found.ends_with(", 49999))"));
        let values = Arc::new(StringArray::from(vec!["it's", "b\\"]));
        assert_eq!(text(&keys("name", values)), r"(`name` IN ('it\'s', 'b\\'))");
    }

    #[test]
    fn a_filter_is_taken_as_it_stands() {
        let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![column("n")], lit(true)));
        let expr: Physical = Arc::clone(&filter) as _;
        assert_eq!(text(&expr), "");
        filter.update(bounds("n", 1, 9)).unwrap();
        assert_eq!(text(&expr), "(`n` >= 1) AND (`n` <= 9)");
        // A join without build rows.
        filter.update(lit(false)).unwrap();
        assert_eq!(text(&expr), "(FALSE)");
    }

    #[test]
    fn partitions_are_alternatives() {
        let route = both(column("n"), Operator::Modulo, lit(3_i64));
        let branch = |at: i64, filter: Physical| (lit(at), filter);
        let routed = |otherwise: Physical| {
            let branches = vec![branch(0, bounds("n", 1, 2)), branch(2, bounds("n", 7, 9))];
            case(Some(Arc::clone(&route)), branches, Some(otherwise)).unwrap()
        };
        assert_eq!(
            text(&routed(lit(false))),
            "(((`n` >= 1) AND (`n` <= 2)) OR ((`n` >= 7) AND (`n` <= 9)))"
        );
        // A partition of which nothing is known lets everything through.
        assert_eq!(text(&routed(lit(true))), "");
        assert_eq!(text(&routed(look_up())), "");
        // What is only implied has no negation.
        assert_eq!(text(&not(routed(lit(false))).unwrap()), "");
    }

    #[test]
    fn keys_of_several_columns_are_lists_of_each() {
        let fields = vec![
            Arc::new(Field::new("c0", DataType::Int64, true)),
            Arc::new(Field::new("c1", DataType::Utf8, true)),
        ];
        let values = StructArray::new(
            fields.clone().into(),
            vec![
                Arc::new(Int64Array::from(vec![1, 1, 2])),
                Arc::new(StringArray::from(vec![Some("a"), Some("b"), None])),
            ],
            None,
        );
        let tuple = ScalarFunctionExpr::new(
            "struct",
            struct_function(),
            vec![column("n"), column("name")],
            Arc::new(Field::new("struct", DataType::Struct(fields.into()), true)),
            Arc::default(),
        );
        let filter: Physical = Arc::new(
            InListExpr::try_new_from_array(Arc::new(tuple), Arc::new(values), false, &schema())
                .unwrap(),
        );
        assert_eq!(
            text(&filter),
            "(`n` IN (1, 2)) AND ((`name` IN ('a', 'b')) OR (`name` IS NULL))"
        );
    }

    #[test]
    fn booleans_are_tested_as_written() {
        let positive = both(column("n"), Operator::Gt, lit(5_i64));
        let is_true = both(positive, Operator::IsNotDistinctFrom, lit(true));
        assert_eq!(text(&is_true), "(`n` > 5)");
        let null = ScalarValue::Boolean(None);
        assert_eq!(text(&lit(null)), "(FALSE)");
        assert_eq!(text(&column("flag")), "(`flag`)");
    }

    #[test]
    fn depth_does_not_exhaust_the_stack() {
        let mut tower = bounds("n", 1, 9);
        for level in 0..20_000 {
            let other = both(column("n"), Operator::NotEq, lit(level));
            let operator = if level % 2 == 0 {
                Operator::Or
            } else {
                Operator::And
            };
            tower = Arc::new(BinaryExpr::new(tower, operator, other));
        }
        // The topmost AND still says what its other operand says.
        assert!(text(&tower).contains("(`n` != 19999)"));
        let mut chain = bounds("n", 1, 9);
        for level in 0..20_000 {
            let other = both(column("n"), Operator::Eq, lit(level));
            chain = Arc::new(BinaryExpr::new(chain, Operator::Or, other));
        }
        assert!(text(&chain).ends_with("OR (`n` = 19999))"));
        // Dropping a tower is DataFusion's recursion.
        std::mem::forget((tower, chain));
    }
}
