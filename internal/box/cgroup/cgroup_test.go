package cgroup

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	v1Mounts = "24 23 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
		"25 24 0:23 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct\n" +
		"26 24 0:24 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n" +
		"27 24 0:25 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n" +
		"28 24 0:26 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	v1Groups = "9:name=systemd:/\n8:pids:/a\n4:memory:/user/b:c\n1:cpu,cpuacct:/\n0::/u\n"
)

func TestHierarchies(t *testing.T) {
	for name, c := range map[string]struct {
		groups, mounts string
		want           []hierarchy
	}{
		"version 1": {v1Groups, v1Mounts, []hierarchy{
			{[]string{"cpu", "cpuacct"}, "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"},
			{[]string{"memory"}, "/sys/fs/cgroup/memory/user/b:c", "/sys/fs/cgroup/memory"},
			{[]string{"pids"}, "/sys/fs/cgroup/pids/a", "/sys/fs/cgroup/pids"},
			{nil, "/sys/fs/cgroup/unified/u", "/sys/fs/cgroup/unified"},
		}},
		"version 2": {"0::/user.slice/s.scope\n", "30 1 0:2 / /sys/fs/cg\\040roup rw - cgroup2 c rw\n",
			[]hierarchy{{nil, "/sys/fs/cg roup/user.slice/s.scope", "/sys/fs/cg roup"}}},
		"a part is mounted": {"0::/docker/1/x\n", "30 1 0:2 /docker/1 /sys/fs/cgroup rw - cgroup2 c rw\n",
			[]hierarchy{{nil, "/sys/fs/cgroup/x", "/sys/fs/cgroup"}}},
		"another part": {"0::/docker/12\n", "30 1 0:2 /docker/1 /sys/fs/cgroup rw - cgroup2 c rw\n", nil},
		"none":         {"", v1Mounts, nil},
		"relative":     {"0::../x\n", "30 1 0:2 / /sys/fs/cgroup rw - cgroup2 c rw\n", nil},
		"cut off":      {"0::", "30 1 0:2 / \n - cgroup2\n", nil},
	} {
		assert.Equal(t, c.want, hierarchies(strings.NewReader(c.groups), strings.NewReader(c.mounts)), name)
	}
}

func FuzzHierarchies(f *testing.F) {
	f.Add(v1Groups, v1Mounts)
	f.Add("0::/a\n", "30 1 0:2 /a/b /sys/fs/cgroup rw - cgroup2 c rw\n")
	f.Fuzz(func(t *testing.T, groups, mounts string) {
		for _, h := range hierarchies(strings.NewReader(groups), strings.NewReader(mounts)) {
			require.True(t, path.IsAbs(h.top) && path.IsAbs(h.own), h)
			_, ok := within(path.Clean(h.own), path.Clean(h.top))
			require.True(t, ok, h)
		}
	})
}

func TestCountIn(t *testing.T) {
	for text, want := range map[string]int{
		"oom_kill_disable 0\nunder_oom 0\noom_kill 12\n": 12, "oom_kill -1\n": 0, "oom_kill 99999999999999999\n": 0,
		"oom_kill": 0, "": 0, "max 3": 0,
	} {
		assert.Equal(t, want, countIn(text, "oom_kill"), text)
	}
}

func TestString(t *testing.T) {
	assert.Empty(t, Parents{}.String())
	assert.Equal(t, "cgroup v1 limits memory", Parents{Memory: "/x"}.String())
	assert.Equal(t, "cgroup v2 limits memory and processes", Parents{Memory: "/x", Processes: "/x", V2: true}.String())
}
