package agentcmd

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/status"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
	"github.com/setpoint-dev/setpoint/explain"
)

// StatusPath is where an agent's admin address serves its status for people, and with
// ".json" after it for programs.
const StatusPath = "/status"

const statusJSON = StatusPath + ".json"

func (c *command) status(kept *status.Book, ready func() error, standby string) *status.Status {
	s := &status.Status{At: time.Now().UTC(), Version: cli.Version(), Platform: c.program.Platform, Cluster: c.Cluster, Shadow: c.Shadow}
	s.Objects, s.Problem = kept.Objects()
	if err := ready(); err != nil && s.Problem == "" {
		s.Problem = err.Error()
	}
	if standby != "" {
		s.Problem = standby
	}
	return s
}

// nextQuery names an object, NAME or NAMESPACE/NAME, for which a status page says what comes next.
const nextQuery = "next"

func statusPages(now func() *status.Status, next *ahead) []daemon.Page {
	asked := func(r *http.Request) *status.Status {
		s := now()
		next.fill(r.Context(), s, r.URL.Query()[nextQuery])
		return s
	}
	return []daemon.Page{
		{Path: StatusPath, About: "what became of each object, and what is held and why; ?next=NAME also asks the service what comes next", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_ = asked(r).WriteText(w)
		})},
		{Path: statusJSON, About: "the same for programs", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answerJSON(func() any { return asked(r) }).ServeHTTP(w, r)
		})},
	}
}

// ahead asks the service what comes next for an object. Only a person's question for a status makes it ask; no
// reconcile does.
type ahead struct {
	targets setpointv1.TargetServiceClient
	cluster string
	// asking is held by the one status that asks: strangers at the admin address cost the service little.
	asking sync.Mutex
}

// Bounds of what one status asks the service.
const (
	mostAhead    = 16
	aheadTimeout = 5 * time.Second
)

// fill fills in what comes next for the named objects.
func (a *ahead) fill(ctx context.Context, s *status.Status, names []string) {
	if len(names) == 0 {
		return
	}
	ask := a.ask
	if a.asking.TryLock() {
		defer a.asking.Unlock()
	} else {
		ask = func(context.Context, *status.Object) []string { return []string{"unknown: another status is asking"} }
	}
	ctx, cancel := context.WithTimeout(ctx, aheadTimeout)
	defer cancel()
	asked := 0
	for i, o := range s.Objects {
		if !o.Named(names) {
			continue
		}
		if asked++; asked > mostAhead {
			return
		}
		copied := *o
		copied.Next = ask(ctx, o)
		s.Objects[i] = &copied
	}
}

func (a *ahead) ask(ctx context.Context, o *status.Object) []string {
	if o.Target == "" {
		return []string{"unknown: it was not reconciled yet"}
	}
	if o.Decision != nil && o.Decision.Fleet != "" {
		return []string{"what its fleet decides: setpoint fleet show has that"}
	}
	resp, err := a.targets.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: "clusters/" + a.cluster + "/namespaces/" + o.Namespace + "/targets/" + o.Target})
	switch grpcstatus.Code(err) {
	case codes.OK:
		return explain.Outlook(resp.GetTarget().GetOutlook(), time.Now())
	case codes.PermissionDenied:
		return []string{"unknown: the agent's token has no verb read"}
	case codes.NotFound:
		return []string{"unknown: the service has no decision yet"}
	case codes.Unavailable: // the object's hold says why
		return []string{"unknown: the service is unavailable"}
	}
	return []string{"unknown: " + grpcstatus.Convert(err).Message()}
}

func newStatus(p Program) *cobra.Command {
	var address func() string
	output := cli.NewOutputFlag(cli.AsText, cli.AsJSON)
	cmd := &cobra.Command{
		Use:   "status [NAME...]",
		Short: "Print the state of a running agent's objects, and why it holds any",
		Long: `Print what a running agent does with each object: its count, when the agent last scaled
it, and why the agent holds it. The command asks the agent at its admin address. With names
(NAME or NAMESPACE/NAME) it prints only those objects, and what comes next for each if the
metrics stay as they are, for which the agent asks the service (16 objects at most; its token
needs the verb read); an unknown name is an error.

SETPOINT_ADMIN_ADDRESS sets the address here as it does for the agent.`,
		Example: fmt.Sprintf("  setpoint-%s status\n  setpoint-%[1]s status %s -o json", p.Platform, cmp.Or(p.Object, "shop/web")),
		RunE: func(cmd *cobra.Command, names []string) error {
			var now status.Status
			page := statusJSON
			if len(names) > 0 {
				page += "?" + url.Values{nextQuery: names}.Encode()
			}
			if err := askAgent(cmd, "status", address(), page, &now); err != nil {
				return err
			}
			if err := now.Only(names); err != nil {
				return err
			}
			if output.Form == cli.AsJSON {
				return cli.WriteValue(cmd.OutOrStdout(), cli.AsJSON, &now)
			}
			return now.WriteText(cmd.OutOrStdout())
		},
	}
	address = daemon.BindAdmin(cmd, "`host:port` that the agent has as its --admin-address", Defaults().AdminAddress)
	cmd.Flags().VarP(output, "output", "o", "form of the output: text or json")
	return cmd
}
