package prompt

import (
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Who gives text now and then is not waited for in public; who gives none for three seconds is, once.
func TestPatient(t *testing.T) {
	for name, tt := range map[string]struct {
		pauses []time.Duration
		told   int
	}{
		"at once":   {nil, 0},
		"slowly":    {[]time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second}, 0},
		"late":      {[]time.Duration{4 * time.Second, 4 * time.Second}, 1},
		"in pauses": {[]time.Duration{time.Second, 4 * time.Second, 4 * time.Second}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				go func() {
					for _, d := range tt.pauses {
						time.Sleep(d)
						_, _ = io.WriteString(w, "x")
					}
					w.Close()
				}()
				var told atomic.Int32
				from := patient{r, time.AfterFunc(patience, func() { told.Add(1) })}
				text, err := io.ReadAll(from)
				require.NoError(t, err)
				time.Sleep(time.Minute)
				assert.Len(t, text, len(tt.pauses))
				assert.EqualValues(t, tt.told, told.Load())
			})
		})
	}
}
