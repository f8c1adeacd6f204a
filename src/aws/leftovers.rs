//! What the cluster itself made: load balancers, volumes, security groups, by the tag that Kubernetes puts
//! on what it owns.

use aws_sdk_cloudcontrol::types::HandlerErrorCode;
use aws_sdk_resourcegroupstagging::types::TagFilter;

use super::Aws;
use super::errors::failed;
use crate::port::{Answer, CloudError, ErrorKind, Leftover};

/// Parts of ARNs, the type they stand for, and whether it holds data.
const TYPES: &[(&str, &str, &str, bool)] = &[
    (
        "elasticloadbalancing",
        "loadbalancer/net/",
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
        false,
    ),
    (
        "elasticloadbalancing",
        "loadbalancer/app/",
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
        false,
    ),
    ("elasticloadbalancing", "targetgroup/", "AWS::ElasticLoadBalancingV2::TargetGroup", false),
    ("elasticloadbalancing", "loadbalancer/", "AWS::ElasticLoadBalancing::LoadBalancer", false),
    ("ec2", "volume/", "AWS::EC2::Volume", true),
    ("ec2", "security-group/", "AWS::EC2::SecurityGroup", false),
];

/// So often is asked whether something is gone.
const LOOKS: u32 = 400;
/// The tag that CloudFormation puts on what a stack made: then it is none of these.
const OF_A_STACK: &str = "aws:cloudformation:stack-id";

pub(super) async fn find(
    client: &aws_sdk_resourcegroupstagging::Client,
    cluster: &str,
) -> Answer<Vec<Leftover>> {
    let tag = TagFilter::builder().key(format!("kubernetes.io/cluster/{cluster}")).values("owned");
    let mut pages = client.get_resources().tag_filters(tag.build()).into_paginator().send();
    let mut all = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|e| failed("GetResources", e))?;
        for found in page.resource_tag_mapping_list.unwrap_or_default() {
            let tags = found.tags.unwrap_or_default();
            // Machines and their volumes go with their group.
            let ours = tags.iter().any(|t| t.key() == OF_A_STACK || t.key() == "kaws/group");
            let arn = found.resource_arn.unwrap_or_default();
            all.extend(leftover(&arn).filter(|_| !ours));
        }
    }
    // Load balancers before the groups they use.
    all.sort_by_key(|l: &Leftover| (!l.kind.ends_with("::LoadBalancer"), l.clone()));
    Ok(all)
}

fn leftover(arn: &str) -> Option<Leftover> {
    let mut parts = arn.splitn(6, ':').skip(2);
    let (service, resource) = (parts.next()?, parts.nth(2)?);
    let row = TYPES.iter().find(|(s, prefix, ..)| *s == service && resource.starts_with(prefix))?;
    Some(Leftover { kind: row.2.to_owned(), arn: arn.to_owned(), data: row.3 })
}

/// Removes one, and waits until it is gone. A bucket is emptied first.
pub(super) async fn remove(aws: &Aws, leftover: &Leftover) -> Answer<()> {
    let last = leftover.arn.rsplit([':', '/']).next().unwrap_or(&leftover.arn);
    let by_arn = leftover.kind.starts_with("AWS::ElasticLoadBalancingV2");
    if leftover.kind == "AWS::S3::Bucket" {
        super::objects::empty(&aws.s3, last).await?;
    }
    let identifier = if by_arn { &leftover.arn } else { last };
    let call = aws.control.delete_resource().type_name(&leftover.kind).identifier(identifier);
    let said = call.send().await.map_err(|e| failed("DeleteResource", e))?;
    let token = said.progress_event.and_then(|p| p.request_token).unwrap_or_default();
    for _ in 0..LOOKS {
        let said = aws.control.get_resource_request_status().request_token(&token).send().await;
        let said = said.map_err(|e| failed("GetResourceRequestStatus", e))?;
        let Some(event) = said.progress_event else { return Ok(()) };
        match event.operation_status.as_ref().map(|s| s.as_str().to_owned()).as_deref() {
            Some("SUCCESS") | None => return Ok(()),
            // The index of tags still lists for a while what is gone.
            Some("FAILED") if event.error_code == Some(HandlerErrorCode::NotFound) => return Ok(()),
            Some("FAILED" | "CANCEL_COMPLETE") => {
                let text = event.status_message.unwrap_or_else(|| "AWS gives no reason".to_owned());
                return Err(CloudError::new("DeleteResource", ErrorKind::Refused, text));
            }
            Some(_) => tokio::time::sleep(super::Cloud::pause(aws)).await,
        }
    }
    let text = format!("{} is not gone after a long time", leftover.arn);
    Err(CloudError::new("DeleteResource", ErrorKind::Unavailable, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_follows_from_the_arn() {
        let kind = |arn: &str| leftover(arn).map(|l| l.kind);
        assert_eq!(
            kind("arn:aws:elasticloadbalancing:eu-west-1:1:loadbalancer/net/a/b").as_deref(),
            Some("AWS::ElasticLoadBalancingV2::LoadBalancer")
        );
        assert_eq!(
            kind("arn:aws:ec2:eu-west-1:1:volume/vol-1").as_deref(),
            Some("AWS::EC2::Volume")
        );
        assert_eq!(kind("arn:aws:ec2:eu-west-1:1:instance/i-1"), None);
    }
}
