//! kaws turns one `cluster.yaml` into a whole Kubernetes cluster on AWS.
pub mod config;
pub mod finding;
pub mod model;
pub mod name;
pub mod origin;
pub mod schema;
pub mod value;
