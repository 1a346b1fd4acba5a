//! Names of datasets, tables and jobs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A dataset's name. Dataset names are case-sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatasetRef {
    /// Project.
    #[serde(rename = "projectId")]
    pub project: String,
    /// Dataset.
    #[serde(rename = "datasetId")]
    pub dataset: String,
}

impl DatasetRef {
    /// `project` and `dataset`.
    pub fn new(project: impl Into<String>, dataset: impl Into<String>) -> Self {
        Self {
            project: project.into(),
            dataset: dataset.into(),
        }
    }

    /// A table of this dataset.
    pub fn table(&self, table: impl Into<String>) -> TableRef {
        TableRef {
            project: self.project.clone(),
            dataset: self.dataset.clone(),
            table: table.into(),
        }
    }
}

/// `project:dataset`, as errors print it.
impl fmt::Display for DatasetRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.project, self.dataset)
    }
}

/// A table's name. Table names are case-sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableRef {
    /// Project.
    #[serde(rename = "projectId")]
    pub project: String,
    /// Dataset.
    #[serde(rename = "datasetId")]
    pub dataset: String,
    /// Table, without a partition decorator.
    #[serde(rename = "tableId")]
    pub table: String,
}

impl TableRef {
    /// `project`, `dataset` and `table`.
    pub fn new(
        project: impl Into<String>,
        dataset: impl Into<String>,
        table: impl Into<String>,
    ) -> Self {
        Self {
            project: project.into(),
            dataset: dataset.into(),
            table: table.into(),
        }
    }

    /// The dataset that holds the table.
    pub fn dataset_ref(&self) -> DatasetRef {
        DatasetRef::new(&self.project, &self.dataset)
    }

    /// `projects/p/datasets/d/tables/t`, as the Storage API names tables.
    pub fn path(&self) -> String {
        format!(
            "projects/{}/datasets/{}/tables/{}",
            self.project, self.dataset, self.table
        )
    }

    /// Reads `projects/p/datasets/d/tables/t`.
    pub fn from_path(path: &str) -> Option<Self> {
        let mut parts = path.split('/');
        let reference = match (
            parts.next()?,
            parts.next()?,
            parts.next()?,
            parts.next()?,
            parts.next()?,
            parts.next()?,
        ) {
            ("projects", p, "datasets", d, "tables", t)
                if !p.is_empty() && !d.is_empty() && !t.is_empty() =>
            {
                Self::new(p, d, t)
            }
            _ => return None,
        };
        parts.next().is_none().then_some(reference)
    }
}

/// `project:dataset.table`, as errors print it.
impl fmt::Display for TableRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}.{}", self.project, self.dataset, self.table)
    }
}

/// A job's name. Ids are unique per project and location.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobRef {
    /// Project that runs (and would pay for) the job.
    #[serde(rename = "projectId")]
    pub project: String,
    /// Location in its canonical spelling.
    pub location: String,
    /// Id, given by the client or made.
    #[serde(rename = "jobId")]
    pub id: String,
}

/// `project:location.id`, as errors and resource ids print it.
impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}.{}", self.project, self.location, self.id)
    }
}
