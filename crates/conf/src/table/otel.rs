//! Traces by OpenTelemetry, with the words of nginx's own module for them.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::directives;

directives! {
    module "ngx_otel_module";
    "otel_exporter" (block 0) "" in Http, No, Yes =>
        "Where spans are sent, and how they are batched.",
        "otel_exporter { endpoint localhost:4317; }";
    "endpoint" (1) "[(http|https)://]host:port[/path]" in OtelExporter, No, Yes =>
        "The collector. It is called by OTLP over gRPC; with `http://` or `https://` and a path, such as `/v1/traces`, by OTLP over HTTP. \
         Every exporter needs one.", "endpoint https://collector.example:4317;";
    "trusted_certificate" (1) "file" in OtelExporter, No, Yes =>
        "Authorities, in PEM, that must have signed the certificate of a collector behind `https://`; without it those \
         of the system count.", "trusted_certificate collector-ca.pem;";
    "header" (2) "name value" in OtelExporter, No + REPEATABLE, Yes =>
        "A field of every call to the collector, for example its key.", "header x-api-token secret;";
    "interval" (1) "time" = "5s" in OtelExporter, No, Yes =>
        "How long a span waits at most for others before it is sent.", "interval 2s;";
    "batch_size" (1) "number" = "512" in OtelExporter, No, Yes =>
        "Most spans in one call.", "batch_size 256;";
    "batch_count" (1) "number" = "4" in OtelExporter, No, Yes =>
        "How many batches of each worker may wait to be sent; what is above that, or above 16 MB, is dropped and counted.",
        "batch_count 8;";
    "otel_service_name" (1) "name" = "unknown_service:nginx" in Http, No, Yes =>
        "The attribute `service.name` of the resource that all spans belong to.", "otel_service_name gateway;";
    "otel_resource_attr" (2) "name value" in Http, No + REPEATABLE, Yes =>
        "A further attribute of that resource.", "otel_resource_attr deployment.environment production;";
    "otel_trace" (1) "on | off | $variable" = "off" in Http | Server | Location, Value, Yes =>
        "Whether requests are recorded as spans; a variable does so with the values `on` and `1`. Each attempt at a peer is a \
         span below that of its request.", "otel_trace $otel_parent_sampled;";
    "otel_trace_context" (1) "extract | inject | propagate | ignore" = "ignore" in Http | Server | Location, Value, Yes =>
        "What happens to `traceparent` and `tracestate`: `extract` makes the span a child of the client's, `inject` replaces \
         the fields for what follows, also for the upstream, `propagate` does both.", "otel_trace_context propagate;";
    "otel_span_name" (1) "name" in Http | Server | Location, Value, Yes =>
        "The span's name; without it that of the location.", "otel_span_name \"$request_method $server_name\";";
    "otel_span_attr" (2) "name value" in Http | Server | Location, ListReplaced + REPEATABLE, Yes =>
        "A further attribute of the spans. Credentials are refused: fields and cookies that carry them, and tokens.",
        "otel_span_attr cache.status $upstream_cache_status;";
}
