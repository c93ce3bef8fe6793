#!/bin/sh
# Starts the image's root filesystem the way a container runtime does: namespaces of its own, read-only, as the image's user, without
# capabilities. Called by `cargo xtask package-test --release` as: unshare --net --mount --pid --fork sh image.sh FOLDER-WITH-ROOT
set -eu
from=$1
root=$(mktemp -d)
trap 'umount -R "$root" 2>/dev/null || true; rmdir "$root"' EXIT

mount -t tmpfs -o mode=0755 none "$root"
cp -a "$from/root/." "$root"
mkdir "$root/proc" "$root/dev"
ip link set lo up
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs -o mode=1777 none "$root/tmp"
mount -o remount,ro "$root"

inside() { chroot --userspec=10001:10001 "$root" "$@"; }

# Runtimes give the standard streams to the image's user.
: > "$from/log"
chown 10001:10001 "$from/log"
# A shell starts background programs with QUIT ignored, and a runtime does not.
env --default-signal=QUIT chroot --userspec=10001:10001 "$root" /usr/bin/holdfast -c /etc/holdfast/nginx.conf > "$from/log" 2>&1 &
server=$!
health=$(sed -n 's/^HEALTHCHECK.*CMD \[\(.*\)\]$/\1/p' "$from/Dockerfile" | sed 's/"//g; s/,//g')
tries=100
# The words of the health check, split on purpose.
# shellcheck disable=SC2086
until inside $health > "$from/health" 2>&1; do
    tries=$((tries - 1))
    if [ "$tries" = 0 ]; then
        cat "$from/log" "$from/health"
        exit 1
    fi
    sleep 0.1
done
curl --silent --fail http://127.0.0.1:8080/ | grep -q "Holdfast works"
kill -QUIT "$server"
wait "$server"
# With nothing there the health check fails.
# shellcheck disable=SC2086
if inside $health > /dev/null 2>&1; then
    echo "the health check passes although nothing serves"
    exit 1
fi
echo "the image serves, is healthy, and ends on QUIT"
