//! What the admission webhook says about an Ingress or a route before the API server stores it. Pure: the same translation as
//! for the configuration that serves, and nothing of it is served.

mod ingresses;
mod routes;

use crate::objects::networking::Ingress;
use crate::objects::routes::{GrpcRoute, HttpRoute};
use crate::objects::{Metadata, Object as _};
use crate::{Cluster, Finding, Kind, ObjectName, Settings};

/// An object that is reviewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reviewed {
    /// An Ingress.
    Ingress(Ingress),
    /// An `HTTPRoute`.
    HttpRoute(HttpRoute),
    /// A `GRPCRoute`.
    GrpcRoute(GrpcRoute),
}

impl Reviewed {
    /// Kind and name.
    pub fn object(&self) -> ObjectName {
        let kind = match self {
            Self::Ingress(_) => Ingress::KIND,
            Self::HttpRoute(_) => HttpRoute::KIND,
            Self::GrpcRoute(_) => GrpcRoute::KIND,
        };
        ObjectName { kind, name: self.metadata().key() }
    }

    /// Its metadata.
    pub fn metadata(&self) -> &Metadata {
        match self {
            Self::Ingress(ingress) => &ingress.metadata,
            Self::HttpRoute(route) => &route.metadata,
            Self::GrpcRoute(route) => &route.metadata,
        }
    }

    /// The same, to change.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        match self {
            Self::Ingress(ingress) => &mut ingress.metadata,
            Self::HttpRoute(route) => &mut route.metadata,
            Self::GrpcRoute(route) => &mut route.metadata,
        }
    }
}

impl From<Ingress> for Reviewed {
    fn from(ingress: Ingress) -> Self {
        Self::Ingress(ingress)
    }
}

impl From<HttpRoute> for Reviewed {
    fn from(route: HttpRoute) -> Self {
        Self::HttpRoute(route)
    }
}

impl From<GrpcRoute> for Reviewed {
    fn from(route: GrpcRoute) -> Self {
        Self::GrpcRoute(route)
    }
}

/// The findings about an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// What would not be served; with any, the object is refused.
    pub refused: Vec<Finding>,
    /// What is worth saying about an object that is stored.
    pub warnings: Vec<Finding>,
}

/// Judges an object as it would be stored, beside the objects of the cluster, which may have an older version of it.
pub fn judge(cluster: &Cluster, settings: &Settings, reviewed: Reviewed) -> Judgement {
    if reviewed.metadata().deletion_timestamp.is_some() {
        return Judgement::default();
    }
    match reviewed {
        Reviewed::Ingress(ingress) => ingresses::judge(cluster, settings, ingress),
        Reviewed::HttpRoute(route) => routes::judge(cluster, settings, route),
        Reviewed::GrpcRoute(route) => routes::judge(cluster, settings, route),
    }
}

/// Whether two versions of an object ask for the same, so that nothing new is to be judged.
pub fn asks_the_same(settings: &Settings, one: &Reviewed, two: &Reviewed) -> bool {
    match (one, two) {
        (Reviewed::Ingress(one), Reviewed::Ingress(two)) => ingresses::asks_the_same(settings, one, two),
        (Reviewed::HttpRoute(one), Reviewed::HttpRoute(two)) => one.spec == two.spec,
        (Reviewed::GrpcRoute(one), Reviewed::GrpcRoute(two)) => one.spec == two.spec,
        _ => false,
    }
}

/// How to mend what a finding says.
pub fn advice(finding: &Finding) -> &'static str {
    match (finding.object.kind, finding.reason) {
        (Kind::Ingress, "RefusedAnnotation") => "remove the annotation",
        (Kind::Ingress, "WrongAnnotation") => "correct the value of the annotation, or remove it",
        (Kind::Ingress, "WrongHost") => "name a host such as www.example.com or *.example.com",
        (Kind::Ingress, "WrongPath") => "write a path that begins with / and has no control characters",
        (Kind::Ingress, "Conflict") => "choose another host or path, or make it a canary of that Ingress",
        (Kind::Ingress, "TooLarge") => "divide it into several Ingresses",
        (Kind::Ingress, _) => "see the page about annotations in the handbook",
        (_, "TooLarge") => "divide it into several routes",
        _ => "correct the value or remove it, or see the page about the Gateway API in the handbook",
    }
}
