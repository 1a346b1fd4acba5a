//! `information_schema` of a session with BigQuery catalogs, and with it SHOW
//! TABLES and SHOW COLUMNS.
//!
//! DataFusion's own asks catalogs for their names in functions that cannot fail,
//! and asks for the columns of every table one after the other. Here the lists
//! that a query needs, by its conditions on catalog, schema and table, are fetched
//! when it is planned, several at a time, and what goes wrong is the query's
//! error. DataFusion's tables are then made of what was found.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::information_schema::{INFORMATION_SCHEMA, InformationSchemaProvider};
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProviderList, SchemaProvider, Session,
    TableProvider,
};
use datafusion::common::{ScalarValue, internal_err, plan_datafusion_err};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlanBuilder, Operator, TableProviderFilterPushDown, TableType,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::TableFactor;
use futures::{StreamExt, TryStreamExt};

use super::dataset::described;
use super::listing::resolve;
use super::project::BigQueryCatalog;
use crate::client::rest::model::TableListItem;
use crate::error::ErrorKind;
use crate::table::table_type;
use crate::types::DatasetRef;

/// Requests that are under way at a time.
const AT_A_TIME: usize = 16;

/// The tables that are made here.
const LISTED: [&str; 4] = ["tables", "views", "columns", "schemata"];

/// Plans the tables of `information_schema` that list what catalogs have.
#[derive(Debug)]
pub(crate) struct Listings {
    catalogs: Arc<dyn CatalogProviderList>,
}

impl Listings {
    /// `catalogs` are those of sessions that are no [`SessionState`].
    pub(crate) fn new(catalogs: Arc<dyn CatalogProviderList>) -> Self {
        Self { catalogs }
    }
}

impl RelationPlanner for Listings {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let original = |relation| Ok(RelationPlanning::Original(Box::new(relation)));
        let TableFactor::Table {
            name, args: None, ..
        } = &relation
        else {
            return original(relation);
        };
        let Ok(reference) = context.object_name_to_table_reference(name.clone()) else {
            return original(relation);
        };
        let listed = LISTED
            .iter()
            .find(|listed| reference.table().eq_ignore_ascii_case(listed));
        let (Some(INFORMATION_SCHEMA), Some(listed)) = (reference.schema(), listed) else {
            return original(relation);
        };
        // It is not there in sessions that leave it out.
        let Ok(plain) = context
            .context_provider()
            .get_table_source(reference.clone())
        else {
            return original(relation);
        };
        let provider = ListedTable {
            table: listed,
            schema: plain.schema(),
            catalogs: Arc::clone(&self.catalogs),
        };
        let source = provider_as_source(Arc::new(provider));
        let plan = LogicalPlanBuilder::scan(reference, source, None)?.build()?;
        let TableFactor::Table { alias, .. } = relation else {
            return internal_err!("a table became something else");
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(
            plan, alias,
        ))))
    }
}

/// One table of `information_schema`.
#[derive(Debug)]
struct ListedTable {
    table: &'static str,
    schema: SchemaRef,
    catalogs: Arc<dyn CatalogProviderList>,
}

#[async_trait]
impl TableProvider for ListedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let catalogs = match session.as_any().downcast_ref::<SessionState>() {
            Some(state) => state.catalog_list(),
            None => &self.catalogs,
        };
        let wanted = Wanted::of(filters, self.table == "schemata");
        let found: Arc<dyn CatalogProviderList> = Arc::new(MemoryCatalogProviderList::new());
        for name in catalogs.catalog_names() {
            if wanted.catalog.as_ref().is_some_and(|only| *only != name) {
                continue;
            }
            let Some(catalog) = catalogs.catalog(&name) else {
                continue;
            };
            let catalog = match catalog.downcast_ref::<BigQueryCatalog>() {
                None => catalog,
                Some(catalog) => {
                    let found = snapshot(catalog, &wanted, self.table)
                        .await
                        .map_err(|error| error.with_context(format!("listing catalog {name}")))?;
                    Arc::new(found) as Arc<dyn CatalogProvider>
                }
            };
            found.register_catalog(name, catalog);
        }
        let provider = InformationSchemaProvider::new(found);
        let table = provider
            .table(self.table)
            .await?
            .ok_or_else(|| plan_datafusion_err!("there is no information_schema.{}", self.table))?;
        table.scan(session, projection, filters, limit).await
    }
}

/// What the conditions of a query leave to be listed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    catalog: Option<String>,
    schema: Option<String>,
    table: Option<String>,
}

impl Wanted {
    fn of(filters: &[Expr], of_schemas: bool) -> Self {
        let mut wanted = Wanted::default();
        for filter in filters {
            let Some((column, value)) = equality(filter) else {
                continue;
            };
            let field = match (column, of_schemas) {
                ("table_catalog", false) | ("catalog_name", true) => &mut wanted.catalog,
                ("table_schema", false) | ("schema_name", true) => &mut wanted.schema,
                ("table_name", false) => &mut wanted.table,
                _ => continue,
            };
            *field = Some(value.to_string());
        }
        wanted
    }
}

/// The column and text of `column = 'text'`.
fn equality(filter: &Expr) -> Option<(&str, &str)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else {
        return None;
    };
    let (Expr::Column(column), Expr::Literal(value, _)) = (left.as_ref(), right.as_ref()) else {
        return None;
    };
    match (op, value) {
        (
            Operator::Eq,
            ScalarValue::Utf8(Some(text))
            | ScalarValue::LargeUtf8(Some(text))
            | ScalarValue::Utf8View(Some(text)),
        ) => Some((&column.name, text)),
        _ => None,
    }
}

/// The names that `wanted` leaves, as they are shown and as they are. A name in
/// other case than the wanted one is shown as it is wanted: a query may name the
/// table in that way.
fn wanted_names(names: &[String], wanted: Option<&String>) -> Vec<(String, String)> {
    match wanted {
        None => names.iter().map(|n| (n.clone(), n.clone())).collect(),
        Some(wanted) => resolve(names.iter().map(String::as_str), wanted)
            .map(|found| (wanted.clone(), found.to_string()))
            .into_iter()
            .collect(),
    }
}

async fn snapshot(
    catalog: &BigQueryCatalog,
    wanted: &Wanted,
    listed: &str,
) -> crate::error::Result<FoundCatalog> {
    let project = catalog.known();
    let datasets = project.datasets.fetch().await?;
    let datasets = wanted_names(&datasets, wanted.schema.as_ref());
    let mut found = FoundCatalog::default();
    if listed == "schemata" {
        for (shown, _) in datasets {
            found.schemas.insert(shown, Arc::default());
        }
        return Ok(found);
    }
    let lists = datasets.into_iter().map(|(shown, dataset)| async move {
        let reference = DatasetRef::new(&project.id, &dataset)?;
        match project.context.client.list_tables(&reference).await {
            Ok(items) => Ok((shown, dataset, items)),
            // Deleted in between.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok((shown, dataset, Vec::new())),
            Err(error) => Err(error),
        }
    });
    let lists: Vec<(String, String, Vec<TableListItem>)> = futures::stream::iter(lists)
        .buffer_unordered(AT_A_TIME)
        .try_collect()
        .await?;
    let mut tables = Vec::new();
    for (shown, dataset, items) in lists {
        let names: Vec<String> = items
            .iter()
            .map(|item| item.reference.table.clone())
            .collect();
        for (table_shown, table) in wanted_names(&names, wanted.table.as_ref()) {
            let kind = items
                .iter()
                .find(|item| item.reference.table == table)
                .map_or(TableType::Base, |item| table_type(&item.kind));
            tables.push((shown.clone(), dataset.clone(), table_shown, table, kind));
        }
        found.schemas.entry(shown).or_default();
    }
    let with_columns = listed == "columns";
    let tables = tables
        .into_iter()
        .map(|(schema, dataset, shown, table, kind)| async move {
            let provider = match with_columns {
                false => None,
                true => match described(project, &dataset, &table).await {
                    Ok(table) => Some(Arc::new(table) as Arc<dyn TableProvider>),
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(error),
                },
            };
            Ok(Some((schema, shown, FoundTable { kind, provider })))
        });
    let tables: Vec<_> = futures::stream::iter(tables)
        .buffer_unordered(AT_A_TIME)
        .try_collect()
        .await?;
    for (schema, name, table) in tables.into_iter().flatten() {
        let schema = found.schemas.entry(schema).or_default();
        Arc::make_mut(schema).tables.insert(name, table);
    }
    Ok(found)
}

/// What was found of a project.
#[derive(Debug, Default)]
struct FoundCatalog {
    schemas: BTreeMap<String, Arc<FoundSchema>>,
}

#[derive(Debug, Default, Clone)]
struct FoundSchema {
    tables: BTreeMap<String, FoundTable>,
}

#[derive(Debug, Clone)]
struct FoundTable {
    kind: TableType,
    /// Where columns were asked for.
    provider: Option<Arc<dyn TableProvider>>,
}

impl CatalogProvider for FoundCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.schemas.keys().cloned().collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let schema = self.schemas.get(name)?;
        Some(Arc::clone(schema) as Arc<dyn SchemaProvider>)
    }
}

#[async_trait]
impl SchemaProvider for FoundSchema {
    fn table_names(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.tables.get(name).map(|table| match &table.provider {
            Some(provider) => Arc::clone(provider),
            None => Arc::new(Undescribed(table.kind)),
        }))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        Ok(self.tables.get(name).map(|table| table.kind))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }
}

/// A table of which only the name was asked.
#[derive(Debug)]
struct Undescribed(TableType);

#[async_trait]
impl TableProvider for Undescribed {
    fn schema(&self) -> SchemaRef {
        Arc::new(datafusion::arrow::datatypes::Schema::empty())
    }

    fn table_type(&self) -> TableType {
        self.0
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("a table that is only listed is not read")
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    #[test]
    fn conditions_leave_less_to_list() {
        let filters = [
            col("table_catalog").eq(lit("bq")),
            col("table_schema").eq(lit("d")),
            col("table_name").not_eq(lit("t")),
        ];
        let wanted = Wanted::of(&filters, false);
        assert_eq!(wanted.catalog.as_deref(), Some("bq"));
        assert_eq!(wanted.schema.as_deref(), Some("d"));
        assert_eq!(wanted.table, None);
        assert_eq!(Wanted::of(&filters, true), Wanted::default());
    }

    #[test]
    fn a_name_in_other_case_is_shown_as_it_was_asked_for() {
        let names = ["MyData".to_string(), "other".to_string()];
        let shown = wanted_names(&names, Some(&"mydata".to_string()));
        assert_eq!(shown, [("mydata".to_string(), "MyData".to_string())]);
        assert!(wanted_names(&names, Some(&"none".to_string())).is_empty());
        assert_eq!(wanted_names(&names, None).len(), 2);
    }
}
