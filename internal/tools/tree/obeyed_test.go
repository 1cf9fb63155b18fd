package tree

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestObeyed(t *testing.T) {
	for _, name := range append(ObeyedNames(), ".GIT", ".env.local", ".env_x", ".envrc.d", ".env-a", ".ENV.prod") {
		assert.True(t, Obeyed(name), name)
		assert.NotEmpty(t, Concern("/work/"+name), name)
		assert.NotEmpty(t, Concern("/work/sub/"+name+"/x"), name)
	}
	for _, name := range []string{
		"", ".", "git", ".gitignore", ".env.example", ".env.local.sample", "env", "x.env", ".envoy", ".envs", ".envrcs",
		".env.swp", ".env~", ".env.local.swo", ".envrc~",
	} {
		assert.False(t, Obeyed(name), name)
	}
}
