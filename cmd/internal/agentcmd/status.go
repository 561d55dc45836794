package agentcmd

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/clients/agent/status"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
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

func statusPages(now func() *status.Status) []daemon.Page {
	return []daemon.Page{
		{Path: StatusPath, About: "what became of each object, and what is held and why", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_ = now().WriteText(w)
		})},
		{Path: statusJSON, About: "the same for programs", Handler: answerJSON(func() any { return now() })},
	}
}

func newStatus(p Program) *cobra.Command {
	address, output := Defaults().AdminAddress, cli.NewOutputFlag(cli.AsText, cli.AsJSON)
	cmd := &cobra.Command{
		Use:   "status [NAME...]",
		Short: "Print the state of a running agent's objects, and why it holds any",
		Long: `Print what a running agent does with each object: its count, when the agent last scaled
it, and why the agent holds it. The command asks the agent at its admin address. With names
(NAME or NAMESPACE/NAME) it prints only those objects; an unknown name is an error.

SETPOINT_ADMIN_ADDRESS sets the address here as it does for the agent.`,
		Example: fmt.Sprintf("  setpoint-%s status\n  setpoint-%[1]s status shop/web -o json", p.Platform),
		RunE: func(cmd *cobra.Command, names []string) error {
			if set := os.Getenv(config.Variable(adminFlag)); set != "" && !cmd.Flags().Changed(adminFlag) {
				address = set
			}
			var now status.Status
			if err := askAgent(cmd, "status", address, statusJSON, &now); err != nil {
				return err
			}
			if err := now.Only(names); err != nil {
				return err
			}
			if output.Form == cli.AsJSON {
				return writeJSON(cmd.OutOrStdout(), &now)
			}
			return now.WriteText(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&address, adminFlag, address, "`host:port` that the agent has as its --admin-address")
	cmd.Flags().VarP(output, "output", "o", "form of the output: text or json")
	return cmd
}
