package batch

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestJobs: with four processors. GNU parallel 20221122 does the same, but refuses -4, against its manual.
func TestJobs(t *testing.T) {
	for value, want := range map[string]string{
		"1": "1", "7": "7", "0": "0", "": "", " ": " ", "many": "many", "1.5": "1.5",
		"+0": "4", "+2": "6", "-0": "4", "-1": "3", "-3": "1", "-4": "1", "-20": "1", " +2": "6",
		"50%": "2", "100%": "4", "30%": "2", "60%": "3", "10%": "1", "0.1%": "1", "150%": "6", "+50%": "2",
		"0%": "0%", "-5%": "-5%", "x%": "x%", "%": "%", "1e99%": "1e99%", "NaN%": "NaN%",
		"+": "+", "-": "-", "+x": "+x", "+99999999999": "+99999999999",
		"+99999999999999999999": "+99999999999999999999",
	} {
		assert.Equal(t, want, jobs(value, 4), "%q", value)
	}
}
