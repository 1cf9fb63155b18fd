package scenario

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
)

// onePixel is a whole PNG, in base64.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="

// The models of the kit see no images, and the real server leaves out an image that its model does not see, without a
// word. It takes each of the forms, though. So qq does not ask a model that is known to see none, and warns where
// nobody knows.
func TestImagesAndTheRealServer(t *testing.T) {
	engines(t, func(t *testing.T, s *ollamatest.Server) {
		w := newWorld(t, s.URL.Host, scripted)
		image, err := base64.StdEncoding.DecodeString(onePixel)
		require.NoError(t, err)
		w.file("a.png", string(image))
		for kind, path := range map[string]string{"ollama": "", "openai": "/v1", "anthropic": "/v1"} {
			for name, option := range map[string]string{"sure": " vision", "unsure": ""} {
				if kind == "ollama" && option == "" {
					continue
				}
				w.env = append(w.env, "QQ_SERVER_"+kind+name+"="+kind+" http://"+s.URL.Host+path+option)
				e := w.qq("--json", "--model", kind+name+":"+scripted, "--image", "a.png", "What is this? [[hello]]")
				assert.Zero(t, e.code)
				assert.Contains(t, e.stdout, hello, kind)
				warned := strings.Contains(e.stdout, "it is not known whether")
				assert.Equal(t, option == "", warned, "%s %s: %s", kind, name, e.stdout)
			}
		}
		w.qq("--json", "--model", "ollama:"+scripted, "--image", "a.png", "What is this? [[hello]]").failed(2, "usage")
	})
}
