//! What the admission webhook says about an Ingress or a route before the API server stores it. Pure: the same translation as
//! for the configuration that serves, and nothing of it is served.

mod ingresses;
mod routes;

use crate::objects::networking::Ingress;
use crate::objects::routes::{GrpcRoute, HttpRoute, TcpRoute, TlsRoute, UdpRoute};
use crate::objects::{Metadata, Object as _};
use crate::{Cluster, Finding, Kind, ObjectName, Settings};

/// The kinds that are reviewed, and what all of them have.
macro_rules! reviewed {
    ($($(#[$doc:meta])* $kind:ident,)+) => {
        /// An object that is reviewed.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Reviewed {
            $($(#[$doc])* $kind($kind),)+
        }

        impl Reviewed {
            /// Kind and name.
            pub fn object(&self) -> ObjectName {
                let kind = match self {
                    $(Self::$kind(_) => $kind::KIND,)+
                };
                ObjectName { kind, name: self.metadata().key() }
            }

            /// Its metadata.
            pub fn metadata(&self) -> &Metadata {
                match self {
                    $(Self::$kind(object) => &object.metadata,)+
                }
            }

            /// The same, to change.
            pub fn metadata_mut(&mut self) -> &mut Metadata {
                match self {
                    $(Self::$kind(object) => &mut object.metadata,)+
                }
            }
        }

        $(impl From<$kind> for Reviewed {
            fn from(object: $kind) -> Self {
                Self::$kind(object)
            }
        })+
    };
}
reviewed!(
    /// An Ingress.
    Ingress,
    /// An `HTTPRoute`.
    HttpRoute,
    /// A `GRPCRoute`.
    GrpcRoute,
    /// A `TLSRoute`.
    TlsRoute,
    /// A `TCPRoute`.
    TcpRoute,
    /// A `UDPRoute`.
    UdpRoute,
);

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
        Reviewed::TlsRoute(route) => routes::judge(cluster, settings, route),
        Reviewed::TcpRoute(route) => routes::judge(cluster, settings, route),
        Reviewed::UdpRoute(route) => routes::judge(cluster, settings, route),
    }
}

/// Whether two versions of an object ask for the same, so that nothing new is to be judged.
pub fn asks_the_same(settings: &Settings, one: &Reviewed, two: &Reviewed) -> bool {
    match (one, two) {
        (Reviewed::Ingress(one), Reviewed::Ingress(two)) => ingresses::asks_the_same(settings, one, two),
        (Reviewed::HttpRoute(one), Reviewed::HttpRoute(two)) => one.spec == two.spec,
        (Reviewed::GrpcRoute(one), Reviewed::GrpcRoute(two)) => one.spec == two.spec,
        (Reviewed::TlsRoute(one), Reviewed::TlsRoute(two)) => one.spec == two.spec,
        (Reviewed::TcpRoute(one), Reviewed::TcpRoute(two)) => one.spec == two.spec,
        (Reviewed::UdpRoute(one), Reviewed::UdpRoute(two)) => one.spec == two.spec,
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
