package nomad

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// Group names a task group.
type Group struct{ Namespace, Job, Name string }

// ErrDeploying means that Nomad refused a count because a deployment of the job is active. Wait
// until it ends.
var ErrDeploying = errors.New("a deployment of the job is active")

// Texts of Nomad's refusals, which have no error codes.
const (
	conflictText  = "Enforcing job modify index"
	deployingText = "job scaling blocked due to active deployment"
)

// Scaling is a write to a task group.
type Scaling struct {
	// Count is the new count. Nil: only an event is recorded, as for a shadow.
	Count *int64
	// JobModifyIndex makes the count conditional: it is that of GET /v1/job/:id. (The scale
	// status has another index of the same name, with which every count is refused.) Not
	// checked for events.
	JobModifyIndex uint64
	// nomad job scaling-events shows Message and Meta. Error marks an event, not a count.
	Message string
	Meta    map[string]any
	Error   bool
}

// Scale writes a count, or an event, and returns the JobModifyIndex that the job has then. The error is agent.ErrMoved if the job has changed since
// its JobModifyIndex was read, agent.ErrGone if there is no such job, and ErrDeploying.
func Scale(ctx context.Context, client *api.Client, g Group, s Scaling) (uint64, error) {
	written, _, err := client.Jobs().ScaleWithRequest(g.Job, &api.ScalingRequest{
		Count: s.Count, Target: map[string]string{"Job": g.Job, "Group": g.Name}, Message: s.Message, Meta: s.Meta, Error: s.Error, JobModifyIndex: s.JobModifyIndex,
	}, (&api.WriteOptions{Namespace: g.Namespace}).WithContext(ctx))
	var refused api.UnexpectedResponseError
	switch {
	case err == nil:
		return written.JobModifyIndex, nil
	case !errors.As(err, &refused):
		return 0, err
	case refused.StatusCode() == http.StatusNotFound:
		return 0, agent.ErrGone
	case strings.Contains(refused.Body(), conflictText):
		return 0, agent.ErrMoved
	case strings.Contains(refused.Body(), deployingText):
		return 0, ErrDeploying
	}
	return 0, err
}
