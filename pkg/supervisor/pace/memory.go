package pace

import (
	"bufio"
	"errors"
	"os"
	"strconv"
	"strings"
)

// Machine is the memory of this machine, as Linux sees it. A limit of a container does not count.
type Machine struct{}

// Available implements [Memory]. It returns an error on other systems than Linux.
func (Machine) Available() (int64, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:")
		if !ok {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
		return kb << 10, err
	}
	return 0, errors.Join(errors.New("/proc/meminfo has no MemAvailable"), lines.Err())
}
