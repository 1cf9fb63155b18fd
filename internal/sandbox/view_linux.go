package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// mount is one mount of a view: a copy of the file tree at path, or an empty folder or file.
type mount struct {
	path     string
	empty    bool
	readOnly bool
	shown    bool // the path may lead through links: it is in no writable folder
	tree     int  // descriptor of the copy; -1 if there is none
}

// join puts the calling thread into the cgroups of the order. A thread that moves itself alone does not wait for all
// others of the machine to pass a safe point, which takes 5 to 15 ms.
func (o Order) join() error {
	for _, fd := range o.Groups {
		_, err := unix.Write(fd, []byte("0"))
		if err := errors.Join(err, unix.Close(fd)); err != nil {
			return fmt.Errorf("join a cgroup: %w", err)
		}
	}
	return nil
}

// limit sets the limits of the order.
func (o Order) limit() error {
	processes := o.Processes
	if info := (unix.Sysinfo_t{}); processes > 0 && os.Getpid() != 1 && unix.Sysinfo(&info) == nil {
		processes += int64(info.Procs) // in no namespace of its own, all processes of the user count
	}
	for resource, most := range map[int]int64{unix.RLIMIT_FSIZE: o.FileSize, unix.RLIMIT_NPROC: processes} {
		var r unix.Rlimit
		if err := unix.Getrlimit(resource, &r); err != nil {
			return fmt.Errorf("read a limit: %w", err)
		}
		if most <= 0 || uint64(most) >= r.Max {
			continue // no limit, or there is a lower one
		}
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: uint64(most), Max: uint64(most)}); err != nil {
			return fmt.Errorf("set a limit: %w", err)
		}
	}
	return nil
}

// show makes the view of the order, if there is one, and reports that. The calling thread is locked and about to
// become another program. Where nobody may mount, it goes on without the view. It must not go on with a part of it, or
// when something is short for the moment, such as memory.
func (o Order) show() (viewed bool, err error) {
	if o.View == nil {
		return false, nil
	}
	said := Viewed
	mounts, err := o.prepare()
	if viewed = err == nil; !viewed {
		if o.Mountable || !mayNotMount(err) {
			return false, fmt.Errorf("give the command its view of the files: %w", err)
		}
		said = err.Error()
	} else if err := o.mount(mounts); err != nil {
		return false, err // it would see a part of the view
	}
	_, err = unix.Write(o.Report, []byte(said+"\n"))
	return viewed, errors.Join(err, unix.Close(o.Report))
}

// mayNotMount reports whether err says that this system lets no such process mount. ENOSPC is the limit of namespaces.
func mayNotMount(err error) bool {
	return slices.ContainsFunc([]error{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EINVAL, unix.ENOSPC},
		func(e error) bool { return errors.Is(err, e) })
}

// prepare gives the thread mounts and IPC objects of its own, which look like those outside but are read-only, and
// returns the mounts of the view. After an error all is as before. Under read-only rules Landlock and the filter keep
// a program from writing: then it is told that permission is denied, and not that there is a read-only file system.
func (o Order) prepare() ([]mount, error) {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWIPC); err != nil {
		return nil, fmt.Errorf("make namespaces: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("part from the mounts outside: %w", err)
	}
	mounts, err := o.copies()
	held := o.Rules.readOnly() && Probe().Filter // without the mounts
	if err == nil && !held && !slices.Contains(o.Rules.Write, "/") {
		if err = setReadOnly(unix.AT_FDCWD, "/", unix.AT_RECURSIVE); err != nil {
			err = fmt.Errorf("make all mounts read-only: %w", err)
		}
	}
	return mounts, err
}

// mount makes the mounts of the view.
func (o Order) mount(mounts []mount) error {
	dir, err := syscall.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	for _, path := range o.servers() { // before other mounts, which may show some again
		if err := cover(path); err != nil {
			return fmt.Errorf("hide the socket %s: %w", path, err)
		}
	}
	for _, m := range mounts {
		if err := m.attach(o.View.Empty); err != nil {
			return fmt.Errorf("mount %s: %w", m.path, err)
		}
	}
	for _, m := range mounts {
		if m.empty {
			if err := setReadOnly(unix.AT_FDCWD, m.path, 0); err != nil && !gone(err) {
				return fmt.Errorf("make %s read-only: %w", m.path, err)
			}
		}
	}
	fd, err := pin(dir) // in the new mount of the same folder
	if err == nil {
		err = errors.Join(unix.Fchdir(fd), unix.Close(fd))
	}
	if err != nil {
		return fmt.Errorf("enter the working directory: %w", err)
	}
	return nil
}

// copies returns the mounts of the view, a folder before what is below it. It copies all file trees before the first
// mount is made. What does not exist by now is left out.
func (o Order) copies() (mounts []mount, err error) {
	for _, path := range slices.Concat(o.Rules.Write, o.Rules.Files) {
		if path != "/" {
			mounts = append(mounts, mount{path: path})
		}
	}
	for _, path := range o.View.Fixed {
		mounts = append(mounts, mount{path: path})
	}
	for _, path := range o.View.ReadOnly {
		mounts = append(mounts, mount{path: path, readOnly: true})
	}
	for _, path := range o.View.Show {
		mounts = append(mounts, mount{path: path, readOnly: true, shown: true})
	}
	for i := range mounts {
		switch mounts[i].tree, err = mounts[i].open(); {
		case err == nil, errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS):
			return nil, fmt.Errorf("copy the mount of %s: %w", mounts[i].path, err)
		default: // it is about this path, and says nothing about the system
			return nil, fmt.Errorf("copy the mount of %s: %v", mounts[i].path, err)
		}
	}
	mounts = slices.DeleteFunc(mounts, func(m mount) bool { return m.tree < 0 })
	for _, path := range o.View.Empty {
		mounts = append(mounts, mount{path: path, empty: true, tree: -1})
	}
	slices.SortStableFunc(mounts, func(a, b mount) int { return strings.Compare(a.path, b.path) })
	return mounts, nil
}

// open copies the file tree at the path of m, with all mounts in it.
func (m mount) open() (tree int, err error) {
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE
	fd, err := m.target()
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	if tree, err = unix.OpenTree(fd, "", flags|unix.AT_EMPTY_PATH); err != nil || !m.readOnly {
		return tree, err
	}
	return tree, setReadOnly(tree, "", unix.AT_RECURSIVE)
}

// pin opens the real path of a file, which other commands may be changing. A link in it is an error, [unix.ELOOP]:
// it would lead to a folder that nobody allowed.
func pin(path string) (fd int, err error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	if fd, err = unix.Openat2(unix.AT_FDCWD, path, how); err == unix.ELOOP {
		err = fmt.Errorf("%s was replaced by a link: %w", path, err)
	}
	return fd, err
}

// attach makes the mount at its path. It makes the path first if that is in one of the folders hidden. Elsewhere, a
// path that is gone by now is left out.
func (m mount) attach(hidden []string) error {
	if m.empty {
		err := unix.Mount("qq", m.path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=1m,mode=0755")
		if errors.Is(err, unix.ENOENT) {
			return nil // nothing to hide
		}
		if errors.Is(err, unix.ENOTDIR) {
			return cover(m.path)
		}
		return err
	}
	defer unix.Close(m.tree)
	fd, err := m.target()
	if errors.Is(err, unix.ENOENT) {
		if !slices.ContainsFunc(hidden, func(dir string) bool { return strings.HasPrefix(m.path, dir+"/") }) {
			return nil
		}
		if err := m.make(); err != nil {
			return err
		}
		fd, err = m.target()
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.MoveMount(m.tree, "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// target opens the path of m.
func (m mount) target() (fd int, err error) {
	if m.shown {
		return unix.Open(m.path, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	return pin(m.path)
}

// make makes an empty folder or file at the path of m, of the kind of its tree.
func (m mount) make() error {
	var st unix.Stat_t
	if err := errors.Join(unix.Fstat(m.tree, &st), os.MkdirAll(filepath.Dir(m.path), 0o755)); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.Mkdir(m.path, 0o755)
	}
	return os.WriteFile(m.path, nil, 0o644)
}

// setReadOnly makes the mount at path, relative to the descriptor at, read-only; with AT_RECURSIVE in flags, all mounts
// below it too.
func setReadOnly(at int, path string, flags uint) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	return unix.MountSetattr(at, path, unix.AT_EMPTY_PATH|flags, &attr)
}
