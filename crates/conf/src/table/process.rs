//! Directives of the top level and of `events`.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{
    ACCEPT, AIO, ALERTS, BUILT_IN, CLOCK, CORES, ENGINE, EPOLL, JIT, NAMED_POOL, OBJECTS, ONE_LEVEL, PRIORITY,
    PROCESSES, TURNS, directives,
};

directives! {
    module "ngx_event_core_module";
    "events" (block 0) "" in Main, No, Yes =>
        "Holds the settings of connection handling.", "events { worker_connections 1024; }";
    "worker_connections" (1) "number" = "512" in Events, No since "0.2.0", Yes =>
        "Most client connections that one worker holds at once. Where a further one comes, connections without a complete \
         request give way, the oldest first, then idle ones. Unlike nginx's, it leaves upstream connections out: those belong \
         to the process, a request uses at most one at a time, and `keepalive` and `max_connections` bound them. So a \
         configuration that nginx serves is never too small.", "worker_connections 4096;";
    "use" (1) "method" in Events, No, Accepted(EPOLL) =>
        "The method of waiting for events.", "use epoll;";
    "multi_accept" (flag) "on | off" = "off" in Events, No, Accepted(ACCEPT) =>
        "Whether a worker accepts all waiting connections at once.", "multi_accept on;";
    "accept_mutex" (flag) "on | off" = "off" in Events, No, Accepted(ACCEPT) =>
        "Whether workers take turns in accepting connections.", "accept_mutex off;";
    "accept_mutex_delay" (1) "time" = "500ms" in Events, No, Accepted(ACCEPT) =>
        "How long a worker waits before it tries to take its turn at accepting again.", "accept_mutex_delay 500ms;";
    "debug_connection" (1) "address | CIDR | unix:" in Events, No + REPEATABLE, Accepted(ONE_LEVEL) =>
        "Logs at debug level for connections from these clients only.", "debug_connection 192.0.2.0/24;";

    module "ngx_core_module";
    "ssl_engine" (1) "device" in Main, No since "0.1.45", Accepted(ENGINE) =>
        "Name of the hardware accelerator for TLS.", "ssl_engine qat;";
    "ssl_object_cache_inheritable" (flag) "on | off" = "on" in Main, No since "1.27.4", Accepted(OBJECTS) =>
        "Whether a reload keeps certificates, keys and revocation lists that have not changed.",
        "ssl_object_cache_inheritable on;";
    "daemon" (flag) "on | off" = "on" in Main, No, Yes =>
        "Whether the master leaves the terminal and runs in the background.", "daemon off;";
    "master_process" (flag) "on | off" = "on" in Main, No, Yes =>
        "Whether a master starts a child to do the work; `off` runs everything in one process.", "master_process off;";
    "timer_resolution" (1) "interval" in Main, No since "0.3.3", Accepted(CLOCK) =>
        "How often the clock is read at most.", "timer_resolution 100ms;";
    "pid" (1) "file" = "logs/nginx.pid" in Main, No, Yes =>
        "The file in which the master writes its process number, for `-s` and for scripts.", "pid /run/holdfast.pid;";
    "lock_file" (1) "file" = "logs/nginx.lock" in Main, No since "0.3.27", OnlyWith(PROCESSES) =>
        "Path prefix of lock files, where locks need files.", "lock_file logs/nginx.lock;";
    "worker_processes" (1) "number | auto" = "1" in Main, No, Yes =>
        "Number of workers; `auto` takes one per usable processor.", "worker_processes auto;";
    "debug_points" (1) "abort | stop" in Main, No, Accepted(ALERTS) =>
        "What happens when an internal inconsistency is found.", "debug_points abort;";
    "user" (1..=2) "user [group]" = "nobody nobody" in Main, No, Yes =>
        "The account (and group, by default of the same name) that the child process runs as once listeners are bound.",
        "user www-data;";
    "worker_priority" (1) "number" = "0" in Main, No, Accepted(PRIORITY) =>
        "Scheduling priority of the workers, as of `nice`.", "worker_priority -5;";
    "worker_cpu_affinity" (1..) "cpumask ... | auto [cpumask]" in Main, No since "0.3.10", Yes =>
        "Binds workers to processors, by a mask each or automatically.", "worker_cpu_affinity auto;";
    "worker_rlimit_nofile" (1) "number" in Main, No since "0.2.0", Yes =>
        "Descriptor limit of the child process; a proxied connection needs two.", "worker_rlimit_nofile 65536;";
    "worker_rlimit_core" (1) "size" in Main, No since "0.3.16", Accepted(CORES) =>
        "Largest core file of a worker.", "worker_rlimit_core 500m;";
    "worker_shutdown_timeout" (1) "time" in Main, No since "1.11.11", Yes =>
        "How long a gentle stop waits for open connections before it closes them.", "worker_shutdown_timeout 30s;";
    "working_directory" (1) "directory" in Main, No since "0.1.35", Yes =>
        "The directory that the child process changes to: core files are written there, unless the system has another place \
         for them. Relative paths of the configuration are relative to the prefix, not to this directory.",
        "working_directory /var/lib/holdfast;";
    "env" (1) "variable[=value]" = "TZ" in Main, No + REPEATABLE since "0.5.9", Yes =>
        "Keeps an environment variable for the child process, or sets it.", "env TZ=UTC;";
    "load_module" (1) "file" in Main, No + REPEATABLE since "1.9.11", Accepted(BUILT_IN) =>
        "Names a dynamic module to load.", "load_module modules/ngx_http_geoip_module.so;";
    "include" (1) "file | mask" in every, No + REPEATABLE, Yes =>
        "Reads further files in place of this line; a mask may match none.", "include conf.d/*.conf;";
    "error_log" (1..) "file [level]" = "logs/error.log error" in Main, No + REPEATABLE, Yes =>
        "Where errors are logged and from which level on; several lines write to several places.",
        "error_log stderr warn;";
    "pcre_jit" (flag) "on | off" = "off" in Main, No since "1.1.12", Accepted(JIT) =>
        "Whether regular expressions known at start are compiled to machine code.", "pcre_jit on;";
    "thread_pool" (2..=3) "name threads=number [max_queue=number]" = "default threads=32 max_queue=65536"
        in Main, No + REPEATABLE since "1.7.11", OnlyWith(NAMED_POOL) =>
        "A named pool of threads for file operations.", "thread_pool default threads=32 max_queue=65536;";

    module "ngx_devpoll_module";
    "devpoll_changes" (1) "value" in Events, No, No =>
        "Number of changes per call of the `/dev/poll` method (Solaris).";
    "devpoll_events" (1) "value" in Events, No, No =>
        "Number of events per call of the `/dev/poll` method (Solaris).";

    module "ngx_epoll_module";
    "epoll_events" (1) "value" in Events, No, Accepted(TURNS) =>
        "Number of events taken per call of the `epoll` method.", "epoll_events 512;";
    "worker_aio_requests" (1) "number" = "32" in Events, No since "1.1.4", Accepted(AIO) =>
        "Most outstanding asynchronous I/O operations of one worker, with `epoll`.", "worker_aio_requests 32;";

    module "ngx_eventport_module";
    "eventport_events" (1) "value" in Events, No, No =>
        "Number of events per call of the `eventport` method (Solaris).";

    module "ngx_iocp_module";
    "iocp_threads" (1) "value" in Events, No, No =>
        "Number of threads of the `iocp` method (Windows).";
    "post_acceptex" (1) "value" in Events, No, No =>
        "Number of outstanding AcceptEx calls (Windows).";
    "acceptex_read" (flag) "on | off" in Events, No, No =>
        "Whether AcceptEx waits for the first data (Windows).", "acceptex_read on;";

    module "ngx_kqueue_module";
    "kqueue_changes" (1) "value" in Events, No, No =>
        "Number of changes per call of the `kqueue` method (BSD).";
    "kqueue_events" (1) "value" in Events, No, No =>
        "Number of events per call of the `kqueue` method (BSD).";

    module "ngx_google_perftools_module";
    "google_perftools_profiles" (1) "file" in Main, No since "0.6.29", No =>
        "Path prefix of profile files.";
}
