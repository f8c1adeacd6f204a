//! Stacks and change sets in CloudFormation.

use std::collections::BTreeMap;

use aws_sdk_cloudformation::Client;
use aws_sdk_cloudformation::types::{
    Capability, ChangeAction, ChangeSetStatus, ChangeSetType, DeploymentMode, EvaluationType,
    EventFilter, EventType, ExecutionStatus, OnStackFailure, Parameter,
    Replacement as SdkReplacement, ResourceChange, Tag,
};
use aws_smithy_types::date_time::Format;

use super::Aws;
use super::errors::failed;
use crate::cloudformation::Action;
use crate::port::{
    Answer, Body, ChangeSet, ChangeSetRequest, Cloud as _, CloudError, ErrorKind, Event, Fault,
    Replacement, SetChange, Stack, StackResource, Status,
};

/// What CloudFormation says of a change set that would change nothing.
const NOTHING: [&str; 2] = ["didn't contain changes", "No updates are to be performed"];

fn shown(stack: aws_sdk_cloudformation::types::Stack) -> Stack {
    let pairs = |all: Vec<(Option<String>, Option<String>)>| -> BTreeMap<String, String> {
        all.into_iter().filter_map(|(k, v)| Some((k?, v?))).collect()
    };
    let parameters = stack.parameters.unwrap_or_default().into_iter();
    let outputs = stack.outputs.unwrap_or_default().into_iter();
    let tags = stack.tags.unwrap_or_default().into_iter();
    Stack {
        name: stack.stack_name.unwrap_or_default(),
        id: stack.stack_id.unwrap_or_default(),
        status: Status::new(stack.stack_status.map(|s| s.as_str().to_owned()).unwrap_or_default()),
        reason: stack.stack_status_reason,
        parameters: pairs(
            parameters.map(|p| (p.parameter_key, p.resolved_value.or(p.parameter_value))).collect(),
        ),
        outputs: pairs(outputs.map(|o| (o.output_key, o.output_value)).collect()),
        tags: pairs(tags.map(|t| (t.key, t.value)).collect()),
        protected: stack.enable_termination_protection.unwrap_or_default(),
    }
}

pub(super) async fn all(client: &Client, cluster: &str) -> Answer<Vec<Stack>> {
    let mut pages = client.describe_stacks().into_paginator().send();
    let mut all = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|e| failed("DescribeStacks", e))?;
        let stacks = page.stacks.unwrap_or_default().into_iter().map(shown);
        all.extend(stacks.filter(|s| {
            !s.status.is_deleted() && s.tags.get("kaws/cluster").is_some_and(|c| c == cluster)
        }));
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

pub(super) async fn one(client: &Client, name: &str) -> Answer<Option<Stack>> {
    match client.describe_stacks().stack_name(name).send().await {
        Ok(said) => Ok(said.stacks.unwrap_or_default().into_iter().next().map(shown)),
        Err(error) => match failed("DescribeStacks", error) {
            error if error.is_not_found() => Ok(None),
            error => Err(error),
        },
    }
}

pub(super) async fn template(client: &Client, stack: &str) -> Answer<String> {
    let said = client.get_template().stack_name(stack).send().await;
    let said = said.map_err(|e| failed("GetTemplate", e))?;
    Ok(said.template_body.unwrap_or_default())
}

pub(super) async fn resources(client: &Client, stack: &str) -> Answer<Vec<StackResource>> {
    let mut pages = client.list_stack_resources().stack_name(stack).into_paginator().send();
    let mut all = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|e| failed("ListStackResources", e))?;
        all.extend(page.stack_resource_summaries.unwrap_or_default().into_iter().map(|r| {
            StackResource {
                id: r.logical_resource_id.unwrap_or_default(),
                physical: r.physical_resource_id.unwrap_or_default(),
                kind: r.resource_type.unwrap_or_default(),
                status: Status::new(
                    r.resource_status.map(|s| s.as_str().to_owned()).unwrap_or_default(),
                ),
            }
        }));
    }
    Ok(all)
}

pub(super) async fn events(
    client: &Client,
    stack: &str,
    since: Option<&str>,
) -> Answer<Vec<Event>> {
    let mut pages = client.describe_stack_events().stack_name(stack).into_paginator().send();
    let mut all = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|e| failed("DescribeStackEvents", e))?;
        for event in page.stack_events.unwrap_or_default() {
            let id = event.event_id.unwrap_or_default();
            if since == Some(id.as_str()) {
                return Ok(all);
            }
            let time = event.timestamp.and_then(|t| t.fmt(Format::DateTime).ok());
            all.push(Event {
                id,
                time: time.unwrap_or_default(),
                resource: event.logical_resource_id.unwrap_or_default(),
                kind: event.resource_type.unwrap_or_default(),
                physical: event.physical_resource_id.unwrap_or_default(),
                status: Status::new(
                    event.resource_status.map(|s| s.as_str().to_owned()).unwrap_or_default(),
                ),
                reason: event.resource_status_reason,
            });
        }
    }
    Ok(all)
}

pub(super) async fn last_event(client: &Client, stack: &str) -> Answer<Option<String>> {
    match client.describe_stack_events().stack_name(stack).send().await {
        Ok(said) => {
            let first = said.stack_events.unwrap_or_default().into_iter().next();
            Ok(first.and_then(|e| e.event_id))
        }
        Err(error) => match failed("DescribeStackEvents", error) {
            error if error.is_not_found() => Ok(None),
            error => Err(error),
        },
    }
}

/// Sets a stack's policy, if it has another.
pub(super) async fn set_policy(client: &Client, stack: &str, policy: &str) -> Answer<()> {
    let said = client.get_stack_policy().stack_name(stack).send().await;
    let there = said.map_err(|e| failed("GetStackPolicy", e))?.stack_policy_body;
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    if there.as_deref().and_then(read) == read(policy) {
        return Ok(());
    }
    let said = client.set_stack_policy().stack_name(stack).stack_policy_body(policy).send().await;
    said.map(|_| ()).map_err(|e| failed("SetStackPolicy", e))
}

/// Makes a change set and waits for it. One of the same name is what an interrupted run left.
pub(super) async fn change_set(aws: &Aws, request: &ChangeSetRequest) -> Answer<Option<ChangeSet>> {
    if let Err(error) = create(aws, request).await {
        if !error.is_conflict() {
            return Err(error);
        }
        aws.discard(&request.stack, &request.name).await?;
        match create(aws, request).await {
            // The answer to this very call was lost, and asking again found what it had made.
            Err(error) if error.is_conflict() => {}
            other => other?,
        }
    }
    ready(aws, request).await
}

async fn create(aws: &Aws, request: &ChangeSetRequest) -> Answer<()> {
    let kind = if request.create { ChangeSetType::Create } else { ChangeSetType::Update };
    let mut call = aws
        .cloudformation
        .create_change_set()
        .stack_name(&request.stack)
        .change_set_name(&request.name)
        .change_set_type(kind)
        .capabilities(Capability::CapabilityIam)
        .capabilities(Capability::CapabilityNamedIam)
        .set_role_arn(request.role.clone())
        .set_on_stack_failure(request.keep_failed.then_some(OnStackFailure::DoNothing))
        .set_deployment_mode(request.revert_drift.then_some(DeploymentMode::RevertDrift));
    call = match &request.body {
        Body::Inline(text) => call.template_body(text),
        Body::Object(bucket, key) => call.template_url(url(aws, bucket, key)),
    };
    for (name, value) in &request.parameters {
        let parameter = Parameter::builder().parameter_key(name).parameter_value(value);
        call = call.parameters(parameter.build());
    }
    for name in &request.previous {
        let parameter = Parameter::builder().parameter_key(name).use_previous_value(true);
        call = call.parameters(parameter.build());
    }
    for (key, value) in &request.tags {
        call = call.tags(Tag::builder().key(key).value(value).build());
    }
    call.send().await.map(|_| ()).map_err(|e| failed("CreateChangeSet", e))
}

/// Where CloudFormation finds a template.
fn url(aws: &Aws, bucket: &str, key: &str) -> String {
    match &aws.endpoint {
        Some(endpoint) => {
            // A server for tests knows itself by this name only.
            let endpoint = endpoint.replace("127.0.0.1", "localhost");
            format!("{}/{bucket}/{key}", endpoint.trim_end_matches('/'))
        }
        None => {
            let suffix = if aws.region.starts_with("cn-") { ".cn" } else { "" };
            format!("https://{bucket}.s3.{}.amazonaws.com{suffix}/{key}", aws.region)
        }
    }
}

async fn ready(aws: &Aws, request: &ChangeSetRequest) -> Answer<Option<ChangeSet>> {
    let (stack, name) = (&request.stack, &request.name);
    let mut changes = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let call = aws.cloudformation.describe_change_set().stack_name(stack).change_set_name(name);
        let said = call.set_next_token(token.clone()).send().await;
        let said = said.map_err(|e| failed("DescribeChangeSet", e))?;
        let reason = said.status_reason.clone().unwrap_or_default();
        match said.status {
            Some(ChangeSetStatus::CreateComplete) => {}
            Some(ChangeSetStatus::Failed) if NOTHING.iter().any(|n| reason.contains(n)) => {
                aws.discard(stack, name).await?;
                return Ok(None);
            }
            Some(ChangeSetStatus::Failed) => {
                let faults = faults(aws, stack, name).await;
                aws.discard(stack, name).await?;
                let error = CloudError::new("CreateChangeSet", ErrorKind::Refused, reason);
                return Err(error.because(faults));
            }
            Some(ChangeSetStatus::CreatePending | ChangeSetStatus::CreateInProgress) => {
                tokio::time::sleep(aws.pause()).await;
                continue;
            }
            other => {
                let status = other.map(|s| s.as_str().to_owned()).unwrap_or_default();
                let text = format!("the change set {name} of {stack} is in the state {status}");
                return Err(CloudError::new("DescribeChangeSet", ErrorKind::Refused, text));
            }
        }
        let page = said.changes.unwrap_or_default();
        changes.extend(page.into_iter().filter_map(|c| c.resource_change).map(set_change));
        token = said.next_token;
        if token.is_none() {
            // Its ARN: the next change set of the same name is another one.
            let id = said.change_set_id.unwrap_or_else(|| name.clone());
            return Ok(Some(ChangeSet { name: id, stack: stack.clone(), changes }));
        }
    }
}

/// Returns what CloudFormation's early validation found. Whoever may not ask for it still gets the reason that
/// stands in the change set.
async fn faults(aws: &Aws, stack: &str, change_set: &str) -> Vec<Fault> {
    let failed = EventFilter::builder().failed_events(true).build();
    let call = aws.cloudformation.describe_events().stack_name(stack).change_set_name(change_set);
    let mut pages = call.filters(failed).into_paginator().send();
    let mut all = Vec::new();
    while let Some(Ok(page)) = pages.next().await {
        let events = page.operation_events.unwrap_or_default().into_iter();
        let invalid = events.filter(|e| e.event_type == Some(EventType::ValidationError));
        all.extend(invalid.map(|event| Fault {
            resource: event.logical_resource_id.unwrap_or_default(),
            path: event.validation_path.unwrap_or_default(),
            reason: event.validation_status_reason.or(event.validation_name).unwrap_or_default(),
        }));
    }
    all
}

fn set_change(change: ResourceChange) -> SetChange {
    let details = change.details.unwrap_or_default();
    let dynamic = !details.is_empty()
        && details.iter().all(|d| d.evaluation == Some(EvaluationType::Dynamic));
    SetChange {
        id: change.logical_resource_id.unwrap_or_default(),
        kind: change.resource_type.unwrap_or_default(),
        action: match change.action {
            Some(ChangeAction::Add | ChangeAction::Import) => Action::Add,
            Some(ChangeAction::Remove) => Action::Remove,
            _ => Action::Modify,
        },
        replacement: match change.replacement {
            Some(SdkReplacement::True) => Replacement::Yes,
            Some(SdkReplacement::Conditional) => Replacement::Conditional,
            _ => Replacement::No,
        },
        dynamic,
    }
}

/// Begins to do what a change set holds; asking twice for the same is no mistake.
pub(super) async fn execute(client: &Client, stack: &str, change_set: &str) -> Answer<()> {
    let call = client.execute_change_set().stack_name(stack).change_set_name(change_set);
    let token = crate::value::sha256(format!("{stack}/{change_set}").as_bytes());
    let Err(error) = call.client_request_token(&token[..32]).send().await else { return Ok(()) };
    let error = failed("ExecuteChangeSet", error);
    if error.kind != ErrorKind::Refused {
        return Err(error);
    }
    // The answer to a first attempt may have been lost, and then it is under way or done.
    let call = client.describe_change_set().stack_name(stack).change_set_name(change_set);
    let begun = call.send().await.ok().and_then(|said| said.execution_status).is_some_and(|s| {
        matches!(s, ExecutionStatus::ExecuteInProgress | ExecutionStatus::ExecuteComplete)
    });
    if begun { Ok(()) } else { Err(error) }
}
