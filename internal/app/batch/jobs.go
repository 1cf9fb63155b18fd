package batch

import (
	"math"
	"runtime"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
)

// jobs returns the number of jobs that the value of --jobs stands for, in the notation of GNU parallel: +N and -N are
// the number of processors and N more or less, N% is that part of the processors, rounded up; each is at least 1. Any
// other value is returned as it is.
func jobs(value string, processors int) string {
	s := strings.TrimSpace(value)
	if s == "" {
		return value
	}
	if share, ok := strings.CutSuffix(s, "%"); ok {
		p, err := strconv.ParseFloat(share, 64)
		if err != nil || !(p > 0 && p <= maxShare) {
			return value
		}
		return strconv.Itoa(int(math.Ceil(float64(processors) * p / 100)))
	}
	n, err := strconv.Atoi(s)
	if err != nil || s[0] != '+' && s[0] != '-' || n > math.MaxInt32 {
		return value
	}
	return strconv.Itoa(max(processors+n, 1))
}

// setJobs sets --jobs to the number that it stands for.
func setJobs(c *cli.Context) error {
	value := c.String("jobs")
	number := jobs(value, runtime.NumCPU())
	if n, err := strconv.Atoi(strings.TrimSpace(number)); err != nil || n < 1 {
		return command.Usagef("accepted is a whole number from 1, or +N, -N or N%: so many more or less than the "+
			"machine has processors, or that part of them", "--jobs is %q", value)
	}
	return c.Set("jobs", number)
}

// maxShare is the greatest percentage of processors that --jobs takes.
const maxShare = 100_000
