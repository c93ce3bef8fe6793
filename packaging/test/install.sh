#!/bin/sh
# Installs, uses, upgrades and purges the package, as root in a booted Debian with nginx. Called by `cargo xtask package-test`, which puts
# old.deb and new.deb beside this file. The last line of the file `result` is `passed` or the step that failed.
set -eu
cd /packages
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

step="start"
begin() {
    step=$1
    echo "--- $step"
}
fail() {
    trap - EXIT
    echo "FAILED in \"$step\": $1"
    systemctl --no-pager --full status holdfast.service || true
    journalctl --no-pager -u holdfast.service -n 30 || true
    cat /var/log/holdfast/error.log 2>/dev/null || true
    echo "$step" > result
    systemctl --no-block poweroff
    exit 1
}
trap 'code=$?; [ "$code" = 0 ] || fail "a command ended with $code"' EXIT

# until SECONDS COMMAND…: waits for a condition.
until_true() {
    tries=$(($1 * 10)); shift
    while ! "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "not within its time: $*"
        sleep 0.1
    done
}
page() { curl --silent --show-error --fail --max-time 10 "$@"; }
page_has() { page "$1" | grep -q "$2"; }
pid_file_is_new() { [ -s /run/holdfast.pid ] && [ "$(cat /run/holdfast.pid)" != "$1" ]; }
pid_is_systemds() { [ "$(systemctl show --property MainPID --value holdfast)" = "$(cat /run/holdfast.pid)" ]; }
ended() { ! kill -0 "$1" 2>/dev/null; }
unit() { systemctl show --property "$1" --value holdfast; }
status_has() { unit StatusText | grep -q "$1"; }

begin "lintian finds nothing"
lintian --fail-on error,warning,info --display-info old.deb

begin "nginx serves port 80"
until_true 30 page_has http://127.0.0.1/ nginx

begin "policy-rc.d keeps the service from starting"
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
dpkg -i old.deb
[ ! -e /run/holdfast.pid ] || fail "it runs"
rm /usr/sbin/policy-rc.d
dpkg -P holdfast

begin "a first installation starts beside nginx"
dpkg -i old.deb
until_true 10 page_has http://127.0.0.1:8080/ "Holdfast works"
page_has http://127.0.0.1/ nginx || fail "nginx does not serve any more"
systemctl is-active holdfast
systemctl is-enabled holdfast
[ "$(unit Type)" = notify ] || fail "the type is $(unit Type)"
pid_is_systemds || fail "the main process is $(unit MainPID)"
until_true 20 status_has '^serving: [0-9]* connections, [0-9]* requests under way, [0-9]* tunnels$'
page_has http://127.0.0.1:8080/status/metrics holdfast_build_info || page_has http://127.0.0.1:8080/status/metrics '^holdfast_' || fail "no metrics"
page -H 'Accept: text/html' http://127.0.0.1:8080/status | grep -qi '<html' || fail "no status page"
[ "$(stat -c %U:%G:%a /var/log/holdfast)" = root:adm:750 ] || fail "wrong owner or mode of /var/log/holdfast"
master=$(cat /run/holdfast.pid)
worker=$(pgrep -P "$master" | head -n 1)
[ "$(stat -c %U "/proc/$worker")" = holdfast ] || fail "the worker does not run as holdfast"
grep -q 'Max open files *1048576' "/proc/$worker/limits" || grep 'Max open files' "/proc/$worker/limits"
man_page=$(zcat /usr/share/man/man1/holdfast-load.1.gz | head -n 5)
[ -n "$man_page" ] || fail "an empty manual page"
bash -n /usr/share/bash-completion/completions/holdfast
systemd-analyze verify holdfast.service holdfast-record.service
systemd-analyze security --no-pager holdfast.service | tail -n 1

begin "a change is checked and reloaded"
cat > /etc/holdfast/conf.d/app.conf <<'CONF'
upstream app {
    server 127.0.0.1:80;
    keepalive 16;
}
server {
    listen 127.0.0.1:8090;
    location ~ ^/.*$ { proxy_pass http://app; client_max_body_size 10m; client_body_buffer_size 1k; }
}
CONF
holdfast -t
systemctl reload holdfast
# The command waits for the result.
page_has http://127.0.0.1:8090/ nginx || fail "the new configuration does not serve after systemctl reload"
until_true 20 status_has '^serving: '

begin "systemctl stop and start"
old=$(cat /run/holdfast.pid)
systemctl stop holdfast
[ ! -e /run/holdfast.pid ] || fail "the pid file is left"
if kill -0 "$old" 2>/dev/null; then fail "it runs after systemctl stop"; fi
[ "$(unit Result)" = success ] || fail "the result of the stop is $(unit Result)"
systemctl start holdfast
page_has http://127.0.0.1:8090/ nginx || fail "it does not serve after systemctl start"
pid_is_systemds || fail "the main process is $(unit MainPID)"

begin "systemctl stop waits as long as worker_shutdown_timeout allows"
mkdir -p /etc/systemd/system/holdfast.service.d
printf '[Service]\nTimeoutStopSec=1\n' > /etc/systemd/system/holdfast.service.d/short.conf
sed -i '1i worker_shutdown_timeout 4s;' /etc/holdfast/nginx.conf
systemctl daemon-reload
systemctl restart holdfast
# A request without its end keeps the worker until the timeout.
(printf 'GET / HTTP/1.1\r\nHost: a\r\n'; sleep 30) | curl --silent --output /dev/null telnet://127.0.0.1:8090 &
open=$!
until_true 20 status_has '^serving: [1-9]'
systemctl stop holdfast
kill "$open" 2>/dev/null || true
[ "$(unit Result)" = success ] || fail "it was killed: $(unit Result)"
sed -i '1d' /etc/holdfast/nginx.conf
rm -r /etc/systemd/system/holdfast.service.d
systemctl daemon-reload

begin "systemd passes a socket"
systemctl stop holdfast
cat > /etc/systemd/system/holdfast.socket <<'UNIT'
[Socket]
ListenStream=127.0.0.1:8091
ListenStream=127.0.0.1:8092
UNIT
echo 'server { listen 127.0.0.1:8091; return 200 activated; }' > /etc/holdfast/conf.d/activated.conf
systemctl daemon-reload
systemctl start holdfast.socket
# The first connection starts the service.
page_has http://127.0.0.1:8091/ activated || fail "the socket's service does not answer"
systemctl is-active holdfast
grep -q 'passes the socket "holdfast.socket" of 127.0.0.1:8092, and no "listen" has this address' /var/log/holdfast/error.log || fail "no warning about the other socket"
systemctl stop holdfast.socket holdfast
rm /etc/systemd/system/holdfast.socket /etc/holdfast/conf.d/activated.conf
systemctl daemon-reload
systemctl start holdfast

begin "a request body goes through a file"
head -c 800000 /dev/zero > body
code=$(curl --silent --output /dev/null --write-out '%{http_code}' --data-binary @body http://127.0.0.1:8090/)
[ "$code" = 405 ] || fail "nginx answers POST with 405, and this was $code"

begin "a reload with an error is refused"
echo "proxy_reed_timeout 30s;" > /etc/holdfast/conf.d/broken.conf
if systemctl reload holdfast; then fail "it was not refused"; fi
page_has http://127.0.0.1:8090/ nginx || fail "the old configuration does not serve"
systemctl is-active holdfast
rm /etc/holdfast/conf.d/broken.conf

begin "reload and upgrade under load lose no request"
echo "# A line of the administrator's." >> /etc/holdfast/nginx.conf
cp /usr/bin/holdfast generator
./generator load --quiet -c 8 -d 8s --allow-lag -H 'Connection: close' --expect 'errors<1' http://127.0.0.1:8090/ > load.out 2>&1 &
load=$!
until_true 10 page_has http://127.0.0.1:8080/status/metrics '^holdfast_'
systemctl reload holdfast
old=$(cat /run/holdfast.pid)
dpkg -i new.deb
pid_file_is_new "$old" || fail "the new program did not take over"
until_true 30 ended "$old"
kill -0 "$load" || { cat load.out; fail "the load ended before the upgrade did"; }
if ! wait "$load"; then cat load.out; fail "requests were lost"; fi
grep -E '^(requests|rate)' load.out
[ "$(readlink "/proc/$(cat /run/holdfast.pid)/exe")" = /usr/bin/holdfast ] || fail "the old program runs"
until_true 10 pid_is_systemds
systemctl is-active holdfast
until_true 20 status_has '^serving: '
systemctl reload holdfast
tail -n 1 /etc/holdfast/nginx.conf | grep -q administrator || fail "the changed configuration was replaced"

begin "an upgrade that the configuration does not allow leaves the old program"
echo "proxy_reed_timeout 30s;" > /etc/holdfast/conf.d/broken.conf
old=$(cat /run/holdfast.pid)
dpkg -i old.deb
[ "$(cat /run/holdfast.pid)" = "$old" ] || fail "it was replaced"
page_has http://127.0.0.1:8090/ nginx || fail "it does not serve"
rm /etc/holdfast/conf.d/broken.conf
/usr/share/holdfast/upgrade
pid_file_is_new "$old" || fail "the upgrade by hand did nothing"
until_true 30 ended "$old"

begin "logs are rotated"
page http://127.0.0.1:8090/before >/dev/null 2>&1 || true
until_true 10 grep -q before /var/log/holdfast/access.log
logrotate --force /etc/logrotate.d/holdfast
[ -e /var/log/holdfast/access.log.1 ] || fail "access.log was not renamed"
page http://127.0.0.1:8090/after >/dev/null 2>&1 || true
until_true 10 grep -q after /var/log/holdfast/access.log

begin "systemd starts it again after a crash"
until_true 10 pid_is_systemds
old=$(cat /run/holdfast.pid)
kill -KILL "$old"
until_true 20 pid_file_is_new "$old"
until_true 10 page_has http://127.0.0.1:8090/ nginx

begin "remove stops it and keeps the configuration"
dpkg -r holdfast
[ ! -e /run/holdfast.pid ] || fail "it runs"
[ -e /etc/holdfast/conf.d/app.conf ] || fail "the configuration is gone"

begin "purge leaves nothing"
dpkg -i new.deb
until_true 10 page_has http://127.0.0.1:8090/ nginx
dpkg -P holdfast
systemctl daemon-reload
left=$(find / -xdev -name '*holdfast*' ! -path '/proc/*' ! -path '/sys/*' ! -path '/packages/*' ! -path '/var/log/journal/*' ! -path '/run/log/*' ! -path '/var/cache/man/*' ! -path '/tmp/*' ! -path '/run/systemd/*' || true)
[ -z "$left" ] || fail "left: $left"
left=$(grep -l holdfast /etc/passwd /etc/group /etc/shadow /etc/gshadow || true)
[ -z "$left" ] || fail "the user is left in $left"
if pgrep -x holdfast; then fail "processes are left"; fi
page_has http://127.0.0.1/ nginx || fail "nginx does not serve any more"

trap - EXIT
echo passed > result
systemctl --no-block poweroff
