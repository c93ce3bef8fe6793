//! Mail proxying.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::directives;

directives! {
    module "ngx_mail_core_module";
    "mail" (block 0) "" in Main, No since "0.5.15", No =>
        "Holds the configuration of mail proxies.";
    "server" (block 0) "" in Mail, No + REPEATABLE, No =>
        "One virtual mail server.";
    "listen" (1..) "address:port | unix:path [parameters]" in MailServer, No + REPEATABLE, No =>
        "Address on which the mail server takes connections.";
    "protocol" (1) "imap | pop3 | smtp" in MailServer, No + REPEATABLE, No =>
        "Protocol of the mail server.";
    "timeout" (1) "time" = "60s" in Mail | MailServer, Value, No =>
        "How long a session may be idle before it is proxied.", "timeout 60s;";
    "server_name" (1) "name" = "hostname" in Mail | MailServer, No, No =>
        "Name of the mail server in greetings.", "server_name hostname;";
    "error_log" (1..) "file [level]" in Mail | MailServer, ListReplaced + REPEATABLE, No =>
        "Where errors are logged, and from which severity on.";
    "resolver" (1..) "address ... [valid=time] [ipv4=on|off] [ipv6=on|off] [status_zone=zone] | off" = "off"
        in Mail | MailServer, Value since "0.6.18", No =>
        "Name servers for client host names.", "resolver off;";
    "resolver_timeout" (1) "time" = "30s" in Mail | MailServer, Value since "0.6.18", No =>
        "How long resolving a name may take.", "resolver_timeout 30s;";
    "max_errors" (1) "number" = "5" in Mail | MailServer, Value since "1.21.0", No =>
        "Protocol errors after which the connection is closed.", "max_errors 5;";

    module "ngx_mail_auth_http_module";
    "auth_http" (1) "URL" in Mail | MailServer, Value + REPEATABLE, No =>
        "Address of the HTTP server that authenticates mail users.";
    "auth_http_timeout" (1) "time" = "60s" in Mail | MailServer, Value, No =>
        "How long the authentication server may take.", "auth_http_timeout 60s;";
    "auth_http_header" (2) "header value" in Mail | MailServer, ListReplaced + REPEATABLE, No =>
        "Header field added to authentication requests.";
    "auth_http_pass_client_cert" (flag) "on | off" = "off" in Mail | MailServer, Value since "1.7.11", No =>
        "Whether the client's certificate is passed to the authentication server.", "auth_http_pass_client_cert on;";

    module "ngx_mail_imap_module";
    "imap_client_buffer" (1) "size" = "4k|8k" in Mail | MailServer, Value, No =>
        "Buffer for IMAP commands.";
    "imap_capabilities" (1..) "extension ..." = "IMAP4 IMAP4rev1 UIDPLUS"
        in Mail | MailServer, Value + REPEATABLE, No =>
        "IMAP extensions that are announced.", "imap_capabilities IMAP4 IMAP4rev1 UIDPLUS;";
    "imap_auth" (1..) "method ..." = "plain" in Mail | MailServer, Value + REPEATABLE, No =>
        "IMAP authentication methods.", "imap_auth plain;";

    module "ngx_mail_pop3_module";
    "pop3_capabilities" (1..) "extension ..." = "TOP USER UIDL" in Mail | MailServer, Value + REPEATABLE, No =>
        "POP3 extensions that are announced.", "pop3_capabilities TOP USER UIDL;";
    "pop3_auth" (1..) "method ..." = "plain" in Mail | MailServer, Value + REPEATABLE since "0.5.15", No =>
        "POP3 authentication methods.", "pop3_auth plain;";

    module "ngx_mail_proxy_module";
    "proxy" (flag) "on | off" in Mail | MailServer, Value, No =>
        "Obsolete: whether the mail server proxies.", "proxy on;";
    "proxy_buffer" (1) "size" = "4k|8k" in Mail | MailServer, Value, No =>
        "Buffer of a proxied mail session.";
    "proxy_timeout" (1) "timeout" = "24h" in Mail | MailServer, Value, No =>
        "How long a proxied mail session may be idle.", "proxy_timeout 24h;";
    "proxy_pass_error_message" (flag) "on | off" = "off" in Mail | MailServer, Value, No =>
        "Whether errors of the backend's login reach the client.", "proxy_pass_error_message on;";
    "xclient" (flag) "on | off" = "on" in Mail | MailServer, Value, No =>
        "Whether the XCLIENT command tells SMTP backends about the client.", "xclient on;";
    "proxy_smtp_auth" (flag) "on | off" = "off" in Mail | MailServer, Value since "1.19.4", No =>
        "Whether users are authenticated at SMTP backends.", "proxy_smtp_auth on;";
    "proxy_protocol" (1) "on | off | version" = "off" in Mail | MailServer, Value since "1.19.8", No =>
        "Whether backends are greeted with the PROXY protocol, and with which version.", "proxy_protocol off;";

    module "ngx_mail_realip_module";
    "set_real_ip_from" (1) "address | CIDR | unix:"
        in Mail | MailServer, ListReplaced + REPEATABLE since "1.19.8", No =>
        "Proxy that is trusted to name the client in a PROXY protocol line.";

    module "ngx_mail_smtp_module";
    "smtp_client_buffer" (1) "size" = "4k|8k" in Mail | MailServer, Value, No =>
        "Buffer for SMTP commands.";
    "smtp_greeting_delay" (1) "time" = "0" in Mail | MailServer, Value, No =>
        "How long to wait before the SMTP greeting.", "smtp_greeting_delay 0;";
    "smtp_capabilities" (1..) "extension ..." in Mail | MailServer, Value + REPEATABLE, No =>
        "SMTP extensions that are announced.";
    "smtp_auth" (1..) "method ..." = "plain login" in Mail | MailServer, Value + REPEATABLE, No =>
        "SMTP authentication methods.", "smtp_auth plain login;";

    module "ngx_mail_ssl_module";
    "starttls" (1) "on | off | only" = "off" in Mail | MailServer, Value + REPEATABLE, No =>
        "Whether STARTTLS is offered or required.", "starttls off;";
    "ssl_certificate" (1) "file" in Mail | MailServer, ListReplaced + REPEATABLE, No =>
        "Certificate that is shown to the other side.";
    "ssl_certificate_key" (1) "file" in Mail | MailServer, ListReplaced + REPEATABLE, No =>
        "Secret key of the certificate.";
    "ssl_password_file" (1) "file" in Mail | MailServer, Value since "1.7.3", No =>
        "Passphrases of secret keys.";
    "ssl_dhparam" (1) "file" in Mail | MailServer, Value since "0.7.2", No =>
        "Parameters of DHE ciphers.";
    "ssl_ecdh_curve" (1) "curve" = "auto" in Mail | MailServer, Value since "1.1.0", No =>
        "Curves of ECDHE ciphers.", "ssl_ecdh_curve auto;";
    "ssl_protocols" (1..) "protocol ..." = "TLSv1.2 TLSv1.3" in Mail | MailServer, Value + REPEATABLE, No =>
        "TLS versions that are allowed.", "ssl_protocols TLSv1.2 TLSv1.3;";
    "ssl_ciphers" (1) "ciphers" = "HIGH:!aNULL:!MD5" in Mail | MailServer, Value, No =>
        "Cipher suites that are allowed, in OpenSSL's words.", "ssl_ciphers HIGH:!aNULL:!MD5;";
    "ssl_prefer_server_ciphers" (flag) "on | off" = "off" in Mail | MailServer, Value, No =>
        "Whether the server's order of ciphers counts.", "ssl_prefer_server_ciphers on;";
    "ssl_session_cache" (1..=2) "off | none | [builtin[:size]] [shared:name:size]" = "none"
        in Mail | MailServer, Value + REPEATABLE, No =>
        "Where session parameters are kept.", "ssl_session_cache none;";
    "ssl_session_tickets" (flag) "on | off" = "on" in Mail | MailServer, Value since "1.5.9", No =>
        "Whether sessions are resumed by tickets.", "ssl_session_tickets on;";
    "ssl_session_ticket_key" (1) "file" in Mail | MailServer, ListReplaced + REPEATABLE since "1.5.7", No =>
        "Key of session tickets.";
    "ssl_session_timeout" (1) "time" = "5m" in Mail | MailServer, Value, No =>
        "How long a session can be resumed.", "ssl_session_timeout 5m;";
    "ssl_verify_client" (1) "on | off | optional | optional_no_ca" = "off"
        in Mail | MailServer, Value since "1.7.11", No =>
        "Whether clients must show a certificate.", "ssl_verify_client off;";
    "ssl_verify_depth" (1) "number" = "1" in Mail | MailServer, Value since "1.7.11", No =>
        "Longest chain of certificates.", "ssl_verify_depth 1;";
    "ssl_client_certificate" (1) "file" in Mail | MailServer, Value since "1.7.11", No =>
        "Authorities of client certificates, named to the client.";
    "ssl_trusted_certificate" (1) "file" in Mail | MailServer, Value since "1.7.11", No =>
        "Certificates of trusted authorities.";
    "ssl_crl" (1) "file" in Mail | MailServer, Value since "1.7.11", No =>
        "Revoked certificates.";
    "ssl_conf_command" (2) "name value" in Mail | MailServer, ListReplaced + REPEATABLE since "1.19.4", No =>
        "Sets an OpenSSL configuration command.";
}
