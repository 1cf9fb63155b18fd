package loop

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/picture"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// The model is shown the images of the text and of results, and the transcript has both.
func TestImages(t *testing.T) {
	given := []picture.Image{{Name: "/w/a.png", Bytes: 9}}
	found := []picture.Image{{Name: "/w/b.png", Bytes: 5}}
	model := &script{steps: []step{says("", calling("look")), says("A cat.")}}
	look := reading("look", func(context.Context) tool.Result { return tool.Result{Content: "b.png", Images: found} })
	cfg := Config{MaxTurns: 5, Backend: model, Tools: tool.Set{look}, Images: given}
	r, rec := start(t, context.Background(), cfg, nil)
	require.Equal(t, task.Completed, r.Status, r.Err())
	last := model.asked[1].Messages
	assert.Equal(t, given, last[0].Images)
	assert.Equal(t, found, last[2].Images)
	assert.Equal(t, given, rec.messages[0].Images)
	assert.Equal(t, found, rec.messages[2].Images)
}

// A conversation has room for so many images: those before it count, and one that does not fit is a failed call.
func TestRoomOfImages(t *testing.T) {
	const mib = 1 << 20
	image := func(bytes int) picture.Image { return picture.Image{Bytes: bytes} }
	for name, tt := range map[string]struct {
		history, given, found picture.Image
		times                 int
		want                  string
	}{
		"bytes": {times: 1,
			history: image(8 * mib), given: image(8 * mib), found: image(5 * mib),
			want: "Error: this conversation has 2 images of 16384 KiB, and no room for more: go on with these"},
		"fits": {times: 1,
			history: image(8 * mib), given: image(8 * mib), found: image(4 * mib),
			want: "found"},
		"count": {times: 99,
			want: "Error: this conversation has 100 images of 0 KiB, and no room for more: go on with these"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := make([]tool.Call, tt.times)
			for i := range calls {
				calls[i] = calling("look")
				calls[i].Arguments = []byte(`{"n":` + string(rune('0'+i%10)) + string(rune('0'+i/10%10)) + `1}`)
			}
			model := &script{steps: []step{says("", calls...), says("Done.")}}
			look := reading("look", func(context.Context) tool.Result {
				return tool.Result{Content: "found", Images: []picture.Image{tt.found}}
			})
			_, rec := start(t, context.Background(),
				Config{MaxTurns: 5, Backend: model, Tools: tool.Set{look}, Images: []picture.Image{tt.given}},
				[]llm.Message{{Role: llm.User, Content: "before", Images: []picture.Image{tt.history}}})
			shown, texts := 0, map[string]int{}
			for _, m := range rec.messages {
				shown += len(m.Images)
				texts[m.Content]++
			}
			assert.Positive(t, texts[tt.want], "%v", texts)
			assert.LessOrEqual(t, shown, maxShown)
		})
	}
}
