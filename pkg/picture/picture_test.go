package picture

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// png begins as every PNG does; models, and not qq, decode the rest.
const png = "\x89PNG\r\n\x1a\n"

func TestType(t *testing.T) {
	for head, want := range map[string]string{
		png + "rest":                   "image/png",
		"\xff\xd8\xff\xe0":             "image/jpeg",
		"GIF89a\x01\x00\x01\x00":       "image/gif",
		"GIF89a is an old format":      "",
		"GIF87a\x01\x00\xff":           "image/gif",
		"RIFF\x00\x00\x00\x00WEBPVP8 ": "image/webp",
		"BM\x00\x00":                   "", // models do not know BMP
		"<svg></svg>":                  "",
		"plain text":                   "",
		"":                             "",
		"%PDF-1.7":                     "",
	} {
		assert.Equal(t, want, Type([]byte(head)), "%q", head)
	}
}

func TestRead(t *testing.T) {
	img, err := Read(strings.NewReader(png+"x"), "a.png")
	require.NoError(t, err)
	assert.Equal(t, "a.png (image/png, 9 bytes)", img.String())
	assert.Equal(t, png+"x", string(img.Data))
	encoded, err := json.Marshal(img)
	require.NoError(t, err)
	assert.Equal(t, `{"name":"a.png","type":"image/png","bytes":9,"sha256":"`+
		`1cd153041b3d879295c47092b98f7458eb01d021db67f47e8d7f76d93d8b8ff5"}`, string(encoded), "without the bytes")

	whole, err := Read(strings.NewReader(png+strings.Repeat("x", MaxBytes-len(png))), "whole")
	require.NoError(t, err)
	assert.Equal(t, MaxBytes, whole.Bytes)
	for text, problem := range map[string]string{
		"":     "name is empty, and no image",
		"text": "name is no image that models know",
		png + strings.Repeat("x", MaxBytes-len(png)+1): "name has more than 8 MiB",
	} {
		_, err := Read(strings.NewReader(text), "name")
		assert.EqualError(t, err, problem)
	}
	broken := errors.New("broken")
	_, err = Read(iotest.ErrReader(broken), "name")
	assert.ErrorIs(t, err, broken)
	assert.Contains(t, Advice, "8 MiB")
}
