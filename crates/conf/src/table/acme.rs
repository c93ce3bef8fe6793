//! Certificates from an ACME server.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{ACME_ZONE, directives};

directives! {
    module "ngx_http_acme_module";
    "acme_issuer" (block 1) "name" in Http, No + REPEATABLE since "1.29.0", Yes =>
        "Names a certificate authority that speaks ACME (RFC 8555). `acme_certificate` refers to it.",
        "acme_issuer letsencrypt { uri https://acme-v02.api.letsencrypt.org/directory; accept_terms_of_service; }";
    "acme_certificate" (1..) "issuer [identifier ...] [key=alg[:size]]" in Server, No since "1.29.0", Yes =>
        "Gets a certificate from the issuer and renews it. Identifiers are host names and IP addresses; without any, those of \
         `server_name` count, where `.example.com` means `www.example.com` and `example.com`. `key` is `ecdsa:256` \
         (the default), `ecdsa:384`, `ecdsa:521`, `rsa:2048`, `rsa:3072` or `rsa:4096`. The server shows the certificate \
         with `ssl_certificate $acme_certificate;` and `ssl_certificate_key $acme_certificate_key;`.",
        "acme_certificate letsencrypt example.com www.example.com key=ecdsa:256;";
    "acme_shared_zone" (1) "zone=name:size" = "zone=ngx_acme_shared:256k" in Http, No since "1.29.0", Accepted(ACME_ZONE) =>
        "Memory that processes of nginx share for certificates and challenges.", "acme_shared_zone zone=acme:1M;";
    "uri" (1) "uri" in AcmeIssuer, No since "1.29.0", Yes =>
        "The directory URL of the ACME server. Every issuer needs one. It must be `https`.",
        "uri https://acme-v02.api.letsencrypt.org/directory;";
    "account_key" (1) "alg[:size] | file" in AcmeIssuer, No since "1.29.0", Yes =>
        "The key of the account: `ecdsa:256` makes one, which is what happens without this directive; a file in PEM \
         (PKCS #8) holds one. Other algorithms and sizes are refused: accounts here have ECDSA keys on P-256.",
        "account_key ecdsa:256;";
    "challenge" (1) "http-01 | tls-alpn-01" = "http-01" in AcmeIssuer, No since "1.29.0", Yes =>
        "How the authority checks that a name is ours: it asks for a token on port 80 (`http-01`, or `http`), or makes a TLS \
         handshake on port 443 (`tls-alpn-01`, or `tls-alpn`).", "challenge tls-alpn-01;";
    "contact" (1) "url" in AcmeIssuer, No + REPEATABLE since "1.29.0", Yes =>
        "Where the authority can reach the operator; an address without a scheme is `mailto:`.",
        "contact admin@example.com;";
    "external_account_key" (2) "kid file" in AcmeIssuer, No since "1.29.0", Yes =>
        "Key identifier and MAC key (a file, or `data:KEY`, in base64url) that bind the account to one that the \
         authority knows already (RFC 8555 § 7.3.4).", "external_account_key kid-1 data:c2VjcmV0LXNlY3JldC1zZWNyZXQ;";
    "preferred_chain" (1) "name" in AcmeIssuer, No, No =>
        "Common name of the topmost issuer of the chain that is preferred, where the authority offers several.";
    "profile" (1..=2) "name [require]" in AcmeIssuer, No, Yes =>
        "The certificate profile to ask for. Where the authority does not offer it, the order is made without it; with \
         `require` it fails.", "profile shortlived require;";
    "ssl_trusted_certificate" (1) "file" in AcmeIssuer, No since "1.29.0", Yes =>
        "Authorities, in PEM, that the ACME server's own certificate is checked with; without it, those of the system.",
        "ssl_trusted_certificate /etc/ssl/our-ca.pem;";
    "ssl_verify" (flag) "on | off" = "on" in AcmeIssuer, No since "1.29.0", Yes =>
        "Whether the ACME server's own certificate is checked.", "ssl_verify on;";
    "state_path" (1) "path | off" in AcmeIssuer, No since "1.29.0", Yes =>
        "The directory with the account's key, the certificates and their keys; `acme_NAME` below the prefix by default. It \
         is made with mode 0700 and belongs to `user`. With `off` nothing is kept: each start orders again.",
        "state_path /var/lib/holdfast/acme;";
    "accept_terms_of_service" (0) "" in AcmeIssuer, No since "1.29.0", Yes =>
        "Agrees to the authority's terms of service, which most demand of a new account.", "accept_terms_of_service;";
}
