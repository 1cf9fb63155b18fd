package box

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// lookups are the sockets at which the system looks up names of users and hosts. They are not hidden: without them
// programs do not know who they are.
var lookups = []string{
	"/run/nscd/socket", "/run/systemd/resolve", "/run/systemd/userdb", "/run/avahi-daemon/socket",
	"/run/samba/winbindd", "/var/lib/sss/pipes",
}

// Servers returns the folders and sockets at which programs of the user or of the machine usually do what others ask
// for: terminal multiplexers, the session, displays, keys, containers. All that listens is hidden from commands that
// have a view. These names are hidden too when a server of another namespace listens there, or one that starts later.
// get reads the environment; uid is that of the user.
func Servers(get func(string) string, uid int) (paths []string) {
	user := strconv.Itoa(uid)
	paths = []string{
		"/run/user/" + user, get("XDG_RUNTIME_DIR"),
		"/tmp/tmux-" + user, filepath.Join(cmp.Or(get("TMUX_TMPDIR"), "/tmp"), "tmux-"+user),
		"/run/screen", "/tmp/screens", filepath.Join(get("HOME"), ".screen"), "/tmp/.X11-unix",
		"/run/dbus/system_bus_socket", get("SSH_AUTH_SOCK"),
		"/run/docker.sock", "/run/podman", "/run/containerd", "/run/crio", "/run/host-services",
	}
	keep := func(path string) bool {
		return filepath.IsAbs(path) && path != "/" && path != filepath.Clean(get("HOME"))
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return !keep(filepath.Clean(path)) })
	slices.Sort(paths)
	return slices.Compact(paths)
}

// sockets returns those sockets without links that a person lets commands use.
func (b *Box) sockets() (paths []string) {
	for _, path := range b.Writable {
		path = resolve(path)
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
			paths = append(paths, path)
		}
	}
	return paths
}
