package agent

import (
	"context"
	"encoding/json"
	"slices"

	"qq/pkg/llm"
	"qq/pkg/picture"
	"qq/pkg/task"
)

// look reads the images of the job that are files of the working directory. It is an error if the model is known to
// see no images, and the job or the conversation before it has some.
func (r *run) look(ctx context.Context) error {
	before := slices.ContainsFunc(r.History, func(m llm.Message) bool { return len(m.Images) > 0 })
	if (before || len(r.job.Images) > 0) && r.Model.Blind() {
		what := "the task has an image"
		if len(r.job.Images) == 0 {
			what = "the conversation has an image"
		}
		return &task.Error{Status: task.Misused, Problem: what + ", and the model " + r.Model.String() + " sees none",
			Hint: "name a model that sees images with --model; qq models list shows which do"}
	}
	r.job.Images = slices.Clone(r.job.Images)
	for i, image := range r.job.Images {
		if image.Data != nil {
			continue
		}
		res, err := r.space.Image(ctx, image.Name)
		if err != nil {
			return &task.Error{Status: task.Misused, Problem: err.Error(), Hint: picture.Advice}
		}
		r.job.Images[i] = res.Images[0]
		arguments, err := json.Marshal(map[string]string{"path": image.Name})
		if err != nil {
			return err
		}
		r.looked = append(r.looked, task.Read{Tool: "read_file", Arguments: arguments, Digest: Digest(res)})
	}
	return nil
}
