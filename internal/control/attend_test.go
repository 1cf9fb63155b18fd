package control

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAnnounce: a root knows of a face as long as one of them is there.
func TestAnnounce(t *testing.T) {
	home := t.TempDir()
	assert.False(t, Faces(home).Near())
	one, err := Announce(home)
	require.NoError(t, err)
	other, err := Announce(home)
	require.NoError(t, err)
	assert.True(t, Faces(home).Near())
	one()
	assert.True(t, Faces(home).Near())
	other()
	assert.False(t, Faces(home).Near())
	_, err = Announce(home + "/none")
	assert.Error(t, err)
}
