//! Drift of stacks: what somebody changed by hand.

use aws_sdk_cloudformation::types::{
    StackDriftDetectionStatus, StackResourceDrift, StackResourceDriftStatus,
};

use super::Aws;
use super::errors::failed;
use crate::port::{Answer, Cloud as _, Drift, Drifted};

/// So often it is asked whether CloudFormation has looked at everything.
const LOOKS: u32 = 200;

/// Has CloudFormation look at every resource of a stack, and waits for it.
pub(super) async fn detect(aws: &Aws, stack: &str) -> Answer<Drift> {
    let begun = aws.cloudformation.detect_stack_drift().stack_name(stack).send().await;
    let begun = begun.map_err(|e| failed("DetectStackDrift", e))?;
    let id = begun.stack_drift_detection_id.unwrap_or_default();
    let mut unchecked = Some("it takes too long".to_owned());
    for _ in 0..LOOKS {
        let call = aws.cloudformation.describe_stack_drift_detection_status();
        let said = call.stack_drift_detection_id(&id).send().await;
        let said = said.map_err(|e| failed("DescribeStackDriftDetectionStatus", e))?;
        match said.detection_status {
            Some(StackDriftDetectionStatus::DetectionInProgress) => {
                tokio::time::sleep(aws.pause()).await;
            }
            Some(StackDriftDetectionStatus::DetectionComplete) => {
                unchecked = None;
                break;
            }
            // Some resources could not be looked at; of the others it knows.
            _ => {
                unchecked = Some(said.detection_status_reason.unwrap_or_default());
                break;
            }
        }
    }
    let mut pages = aws
        .cloudformation
        .describe_stack_resource_drifts()
        .stack_name(stack)
        .stack_resource_drift_status_filters(StackResourceDriftStatus::Modified)
        .stack_resource_drift_status_filters(StackResourceDriftStatus::Deleted)
        .into_paginator()
        .send();
    let mut all = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|e| failed("DescribeStackResourceDrifts", e))?;
        all.extend(page.stack_resource_drifts.unwrap_or_default().into_iter().map(drifted));
    }
    all.sort_by(|a, b| a.resource.cmp(&b.resource));
    Ok(Drift { resources: all, unchecked })
}

fn drifted(drift: StackResourceDrift) -> Drifted {
    let deleted = drift.stack_resource_drift_status == Some(StackResourceDriftStatus::Deleted);
    let differences = drift.property_differences.unwrap_or_default().into_iter();
    Drifted {
        resource: drift.logical_resource_id.unwrap_or_default(),
        kind: drift.resource_type.unwrap_or_default(),
        deleted,
        properties: differences
            .map(|p| {
                let path = p.property_path.unwrap_or_default().trim_start_matches('/').to_owned();
                let value = Option::unwrap_or_default;
                (path, value(p.expected_value), value(p.actual_value))
            })
            .collect(),
    }
}
