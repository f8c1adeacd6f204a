//! AWS, through its own SDK: the port's other side.
//!
//! Retries are the SDK's, and patient, because CloudFormation throttles whole accounts. Not here: what is
//! done with the answers (`deploy`).

mod drift;
mod errors;
mod leftovers;
mod machines;
mod objects;
mod stacks;

use std::time::Duration;

use async_trait::async_trait;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};

use errors::failed;

use crate::port::{
    Answer, ChangeSet, ChangeSetRequest, Cloud, Drift, Event, Identity, Leftover, Object,
    ScalingGroup, Stack, StackResource, When,
};

/// How often a call is tried.
const ATTEMPTS: u32 = 14;
/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which AWS.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster's region.
    pub region: String,
    /// The profile whose credentials are used, if not the default one.
    pub profile: Option<String>,
}

/// The region that the environment or the profile names, where it is another than the cluster's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherRegion(pub String);

/// AWS.
#[derive(Debug)]
pub struct Aws {
    balancing: aws_sdk_elasticloadbalancingv2::Client,
    cloudformation: aws_sdk_cloudformation::Client,
    scaling: aws_sdk_autoscaling::Client,
    s3: aws_sdk_s3::Client,
    ssm: aws_sdk_ssm::Client,
    sts: aws_sdk_sts::Client,
    tagging: aws_sdk_resourcegroupstagging::Client,
    control: aws_sdk_cloudcontrol::Client,
    region: String,
    /// An endpoint in place of AWS's own: a server for tests.
    endpoint: Option<String>,
}

impl Aws {
    /// Reads the environment and the profile; asks AWS nothing yet.
    ///
    /// # Errors
    /// An environment or profile that is for another region.
    pub async fn connect(options: &Options) -> Result<Self, OtherRegion> {
        let loader = aws_config::defaults(BehaviorVersion::latest());
        let loader = match &options.profile {
            Some(profile) => loader.profile_name(profile),
            None => loader,
        };
        let timeout = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(10))
            .operation_attempt_timeout(PATIENCE)
            .build();
        let config = loader.timeout_config(timeout).load().await;
        if let Some(found) = config.region().filter(|r| r.as_ref() != options.region) {
            return Err(OtherRegion(found.to_string()));
        }
        // A server for tests is asked as often as it likes.
        let (first, longest) =
            if config.endpoint_url().is_some() { (10, 300) } else { (200, 20_000) };
        let retry = RetryConfig::standard()
            .with_max_attempts(ATTEMPTS)
            .with_initial_backoff(Duration::from_millis(first))
            .with_max_backoff(Duration::from_millis(longest));
        let region = Region::new(options.region.clone());
        let config = config.into_builder().region(region).retry_config(retry).build();
        Ok(Self::of(&config, &options.region))
    }

    fn of(config: &SdkConfig, region: &str) -> Self {
        let endpoint = config.endpoint_url().map(str::to_owned);
        // Names of buckets in the host's name are for AWS's own hosts.
        let s3 = aws_sdk_s3::config::Builder::from(config).force_path_style(endpoint.is_some());
        Self {
            balancing: aws_sdk_elasticloadbalancingv2::Client::new(config),
            cloudformation: aws_sdk_cloudformation::Client::new(config),
            scaling: aws_sdk_autoscaling::Client::new(config),
            s3: aws_sdk_s3::Client::from_conf(s3.build()),
            ssm: aws_sdk_ssm::Client::new(config),
            sts: aws_sdk_sts::Client::new(config),
            tagging: aws_sdk_resourcegroupstagging::Client::new(config),
            control: aws_sdk_cloudcontrol::Client::new(config),
            region: region.to_owned(),
            endpoint,
        }
    }
}

#[async_trait]
impl Cloud for Aws {
    fn name(&self) -> &'static str {
        "aws"
    }

    fn pause(&self) -> Duration {
        if self.endpoint.is_some() { Duration::from_millis(20) } else { Duration::from_secs(3) }
    }

    async fn identity(&self) -> Answer<Identity> {
        let said = self.sts.get_caller_identity().send().await;
        let said = said.map_err(|e| failed("GetCallerIdentity", e))?;
        Ok(Identity {
            account: said.account.unwrap_or_default(),
            arn: said.arn.unwrap_or_default(),
        })
    }

    async fn stacks(&self, cluster: &str) -> Answer<Vec<Stack>> {
        stacks::all(&self.cloudformation, cluster).await
    }

    async fn stack(&self, name: &str) -> Answer<Option<Stack>> {
        stacks::one(&self.cloudformation, name).await
    }

    async fn template(&self, stack: &str) -> Answer<String> {
        stacks::template(&self.cloudformation, stack).await
    }

    async fn resources(&self, stack: &str) -> Answer<Vec<StackResource>> {
        stacks::resources(&self.cloudformation, stack).await
    }

    async fn drift(&self, stack: &str) -> Answer<Drift> {
        drift::detect(self, stack).await
    }

    async fn events(&self, stack: &str, since: Option<&str>) -> Answer<Vec<Event>> {
        stacks::events(&self.cloudformation, stack, since).await
    }

    async fn last_event(&self, stack: &str) -> Answer<Option<String>> {
        stacks::last_event(&self.cloudformation, stack).await
    }

    async fn change_set(&self, request: &ChangeSetRequest) -> Answer<Option<ChangeSet>> {
        stacks::change_set(self, request).await
    }

    async fn execute(&self, stack: &str, change_set: &str) -> Answer<()> {
        stacks::execute(&self.cloudformation, stack, change_set).await
    }

    async fn discard(&self, stack: &str, change_set: &str) -> Answer<()> {
        let call = self.cloudformation.delete_change_set();
        let said = call.stack_name(stack).change_set_name(change_set).send().await;
        said.map(|_| ()).map_err(|e| failed("DeleteChangeSet", e))
    }

    async fn delete_stack(&self, stack: &str, retain: &[String], role: Option<&str>) -> Answer<()> {
        let call = self.cloudformation.delete_stack().stack_name(stack);
        let call = call.set_retain_resources(some(retain)).set_role_arn(role.map(str::to_owned));
        call.send().await.map(|_| ()).map_err(|e| failed("DeleteStack", e))
    }

    async fn roll_back(&self, stack: &str, role: Option<&str>) -> Answer<()> {
        let call = self.cloudformation.rollback_stack().stack_name(stack);
        let said = call.set_role_arn(role.map(str::to_owned)).send().await;
        said.map(|_| ()).map_err(|e| failed("RollbackStack", e))
    }

    async fn continue_rollback(
        &self,
        stack: &str,
        skip: &[String],
        role: Option<&str>,
    ) -> Answer<()> {
        let call = self.cloudformation.continue_update_rollback().stack_name(stack);
        let call = call.set_resources_to_skip(some(skip)).set_role_arn(role.map(str::to_owned));
        call.send().await.map(|_| ()).map_err(|e| failed("ContinueUpdateRollback", e))
    }

    async fn set_policy(&self, stack: &str, policy: &str) -> Answer<()> {
        stacks::set_policy(&self.cloudformation, stack, policy).await
    }

    async fn protect(&self, stack: &str, on: bool) -> Answer<()> {
        let call = self.cloudformation.update_termination_protection();
        let said = call.stack_name(stack).enable_termination_protection(on).send().await;
        said.map(|_| ()).map_err(|e| failed("UpdateTerminationProtection", e))
    }

    async fn put(&self, bucket: &str, key: &str, bytes: Vec<u8>, when: When) -> Answer<String> {
        objects::put(&self.s3, bucket, key, bytes, when).await
    }

    async fn get(&self, bucket: &str, key: &str) -> Answer<Option<Object>> {
        objects::get(&self.s3, bucket, key).await
    }

    async fn list(&self, bucket: &str, prefix: &str) -> Answer<Vec<String>> {
        objects::list(&self.s3, bucket, prefix).await
    }

    async fn delete(&self, bucket: &str, key: &str, when: When) -> Answer<()> {
        objects::delete(&self.s3, bucket, key, when).await
    }

    async fn parameter(&self, name: &str) -> Answer<Option<String>> {
        match self.ssm.get_parameter().name(name).send().await {
            Ok(said) => Ok(said.parameter.and_then(|p| p.value)),
            Err(error) => match failed("GetParameter", error) {
                error if error.is_not_found() => Ok(None),
                error => Err(error),
            },
        }
    }

    async fn scaling_groups(&self, names: &[String]) -> Answer<Vec<ScalingGroup>> {
        machines::groups(&self.scaling, names).await
    }

    async fn unhealthy_targets(&self, arn: &str) -> Answer<Vec<(String, String)>> {
        machines::unhealthy_targets(&self.balancing, arn).await
    }

    async fn terminate(&self, machine: &str) -> Answer<()> {
        machines::terminate(&self.scaling, machine).await
    }

    async fn leftovers(&self, cluster: &str) -> Answer<Vec<Leftover>> {
        leftovers::find(&self.tagging, cluster).await
    }

    async fn remove(&self, leftover: &Leftover) -> Answer<()> {
        leftovers::remove(self, leftover).await
    }
}

/// A list with nothing in it is not sent at all.
fn some(names: &[String]) -> Option<Vec<String>> {
    (!names.is_empty()).then(|| names.to_vec())
}
