#!/usr/bin/env bash
# Boots a machine of the tests: systemd in namespaces of its own, over this system's files.
#
#   machine.sh FOLDER NETWORK    FOLDER/files is laid over the system; what the machine writes comes to lie there too
set -euo pipefail
folder=$1
group=/sys/fs/cgroup/unified
[ -d "$group" ] || group=/sys/fs/cgroup
group=$group/kaws-tests-$$
mkdir -p "$group"
echo $$ >"$group/cgroup.procs"
echo "$group" >"$folder/group"
export folder
# The variables are those of the shell that runs in the namespaces.
# shellcheck disable=SC2016
exec setpriv --pdeathsig KILL ip netns exec "$2" unshare --kill-child --mount --pid --ipc --uts --cgroup --fork bash -c '
set -euo pipefail
mount --make-rprivate /
root=$folder/root
mkdir -p "$root" "$folder/work" "$folder/files"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/files,workdir=$folder/work" "$root"
mount -t proc proc "$root/proc"
# The kernel is not theirs to change.
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir -p "$root/dev/shm" "$root/dev/disk/by-id"
mount -t tmpfs tmpfs "$root/dev/shm"
# Nothing of this system starts there.
rm -rf "$root"/usr/lib/systemd/system/{multi-user,sysinit,timers}.target.wants "$root/etc/systemd/system"/*.wants
find "$root/usr/lib/systemd/system/sockets.target.wants/" -type l ! -name "systemd-journald*" -delete
mkdir -p "$root/etc/systemd/system/systemd-modules-load.service.d"
printf "[Unit]\nConditionPathExists=/nowhere\n" >"$root/etc/systemd/system/systemd-modules-load.service.d/tests.conf"
systemd-id128 new >"$root/etc/machine-id"
hostname "$(basename "$folder")"
exec env -i container=kaws-tests PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  chroot "$root" /usr/lib/systemd/systemd --system --unit=multi-user.target --log-target=journal --show-status=false
'
