package agentcmd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/status"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/doctor"
	"github.com/setpoint-dev/setpoint/internal/files"
)

// Program is the platform's part of a program.
type Program struct {
	// Platform is its name in commands: swarm for setpoint-swarm.
	Platform string
	// Short, Long and Example are the help of the command agent.
	Short, Long, Example string
	// Checked is what doctor checks of the platform, as the end of a sentence: "the labels".
	// DoctorExample is the example of its help. Default: one with the flags of all agents.
	Checked, DoctorExample string
	// Object is the name of an object in the examples of status. Default: shop/web.
	Object string
	// Unresolved and Unanswered are doctor's remedies for a name of the service that is not found, and for an
	// address that does not answer, where the platform has more to say than every other.
	Unresolved, Unanswered string
	// Workers is the default of the setting workers. Default: agent.DefaultWorkers.
	Workers int
	// Settings are the platform's own, Groups those with a title of their own.
	Settings []config.Setting
	Groups   config.List
	// Flags changes the flags of all settings. May be nil.
	Flags func(flags *pflag.FlagSet)
	// Validate refuses what their bounds can't say. May be nil.
	Validate func(s *Settings, refuse config.Refuse)
	// Open opens the platform. It reads files that flags name, but opens no connection, so that
	// --check can call it. Its errors are the user's to fix.
	Open func(Parts) (*Platform, error)
	// Libraries has the metrics of the platform's libraries, with those of the runtime and of the
	// process. Nil: the latter alone.
	Libraries prometheus.Gatherer
}

// Parts are the inputs of Program.Open.
type Parts struct {
	// Settings are those of every agent, and Flags all flags of the command.
	*Settings
	Flags *pflag.FlagSet
	// Sources are the metric sources of --sources-file; without the flag an empty set.
	Sources *samples.Set
	Metrics prometheus.Registerer
	Log     *zap.Logger
}

// Queue is a platform's own, in place of an agent.Driver's.
type Queue struct {
	agent.QueueOptions
	// Run reconciles by the loop until the context ends, and probes and announces, as a Driver does.
	Run func(ctx context.Context, loop *agent.Loop) error
}

// Platform is an opened platform. Fields other than Platform may be nil.
type Platform struct {
	// Platform is an agent.Watched unless there is a Queue.
	agent.Platform
	Queue *Queue
	// Kinds maps the kinds of objects to their labels in the metric of objects.
	Kinds map[string]string
	// ClusterUID returns a unique id of the cluster. It is called until it answers,
	// before anything else is.
	ClusterUID func(ctx context.Context) (string, error)
	// Acts returns what the agent scales, by which agents of the platform know of one another;
	// none if the platform has no id.
	Acts func(ctx context.Context) ([]agent.Acting, error)
	// Ready returns why the platform is not ready, nil if it is.
	Ready func() error
	// Lead runs act, the loop, while this agent has the platform's lock, which one agent of a cluster
	// has, until the context ends. Standby says why it does not act now, "": it does.
	Lead    func(ctx context.Context, act func(context.Context) error) error
	Standby func() string
	// Problem returns a problem for the status that leaves the platform ready; empty: none.
	Problem func() string
	// Run runs beside the loop until the context ends. An error stops the agent.
	Run func(ctx context.Context) error
	// Notes are worth a word at the start.
	Notes []string
	// Checks are those of the command doctor, beside the service's.
	Checks []doctor.Check
	// Asks are the questions that the agent has for the service, without the readings: doctor tells which of
	// them the service refuses. What can't be read is left out, as the platform's Checks tell it.
	Asks func(ctx context.Context) []Ask
	// Close closes connections.
	Close func()
}

// Ask is a question about an object.
type Ask struct {
	Key agent.Key
	// Request has the spec, options, stages and fleet.
	Request *setpointv1.RecommendRequest
}

// New returns the commands agent, status and doctor of a program, and docs, which prints the
// generated docs.
func New(p Program) []*cobra.Command {
	return []*cobra.Command{newAgent(p), newStatus(p), newDoctor(p)}
}

// command is a run of the command agent.
type command struct {
	Settings
	program Program
	flags   *pflag.FlagSet
}

// newCommand returns a run with the defaults.
func newCommand(p Program) *command {
	c := &command{Settings: Defaults(), program: p}
	c.Workers = cmp.Or(p.Workers, c.Workers)
	return c
}

func (c *command) list() config.List {
	all := c.List(c.program.Settings)
	return slices.Insert(all, 1, c.program.Groups...)
}

func (c *command) bind(flags *pflag.FlagSet) {
	c.flags = flags
	c.list().Bind(flags)
	if c.program.Flags != nil {
		c.program.Flags(flags)
	}
	config.AddFlag(flags)
}

func newAgent(p Program) *cobra.Command {
	c := newCommand(p)
	check := false
	report := reportFlags{output: cli.NewOutputFlag(cli.AsText, cli.AsJSON)}
	cmd := &cobra.Command{
		Use: "agent", Short: p.Short, Long: p.Long, Example: p.Example,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Apply(cmd.Flags(), os.Environ()); err != nil {
				return cli.BadSettings(err)
			}
			if report.all || report.differing {
				return report.print(cmd, c.AdminAddress)
			}
			if err := c.validate(); err != nil {
				return cli.BadSettings(err)
			}
			if check {
				return c.check(cmd)
			}
			return c.run(cmd.Context())
		},
	}
	c.bind(cmd.Flags())
	config.AddCheck(cmd.Flags(), &check)
	report.bind(cmd.Flags())
	return cmd
}

func newDoctor(p Program) *cobra.Command {
	c := newCommand(p)
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check what the agent needs, and print what to do about problems", Long: `Check what the agent needs, and print what to do about each problem: whether the service
can be reached, its certificate, the token and what it may do, the clocks, the cluster's
name at the service, and which settings of objects it refuses; and
` + p.Checked + `. It changes nothing.

Give it the agent's flags, variables and config file; in the agent's container the
variables are there already. Exit code 1 if there is a problem.`,
		Example: cmp.Or(p.DoctorExample, fmt.Sprintf("  setpoint-%s doctor --cluster=demo --server=setpoint:9090 --token-file=token", p.Platform)),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Apply(cmd.Flags(), os.Environ()); err != nil {
				return cli.BadSettings(err)
			}
			if err := c.validate(); err != nil {
				return cli.BadSettings(err)
			}
			opened, err := c.open(prometheus.NewRegistry(), zap.NewNop())
			if err != nil {
				return err
			}
			defer opened.close()
			checks := append(c.serviceChecks(p), opened.Checks...)
			if opened.Asks != nil {
				checks = append(checks, doctor.Check{Name: "specs", After: clusterCheck, Run: func(ctx context.Context) []doctor.Finding {
					return c.refusals(ctx, opened.Asks(ctx))
				}})
			}
			if opened.Acts != nil {
				checks = append(checks, doctor.Check{Name: "other agents", After: tokenCheck, Run: func(ctx context.Context) []doctor.Finding {
					return c.otherAgents(ctx, opened.Acts)
				}})
			}
			return doctor.Run(cmd.Context(), cmd.OutOrStdout(), c.RequestTimeout, checks)
		},
	}
	c.bind(cmd.Flags())
	return cmd
}

func (c *command) validate() error {
	var problems config.Problems
	c.list().Check(problems.Refuse)
	c.Service.Validate(problems.Refuse)
	if c.program.Validate != nil {
		c.program.Validate(&c.Settings, problems.Refuse)
	}
	return problems.Err()
}

// check checks all settings and the files they name, and prints the settings. It contacts
// neither the platform nor the service.
func (c *command) check(cmd *cobra.Command) error {
	client, err := c.openService()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	opened, err := c.open(prometheus.NewRegistry(), zap.NewNop())
	if err != nil {
		return err
	}
	defer opened.close()
	if _, err := c.openBook(zap.NewNop()); err != nil {
		return err
	}
	for _, note := range opened.Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	return config.PrintChecked(cmd)
}

// openBook opens the state across restarts.
func (c *command) openBook(log *zap.Logger) (*status.Book, error) {
	book, err := status.Open(c.StateFolder, c.Cluster, log)
	if err != nil {
		return nil, cli.BadInput(fmt.Errorf("--state-dir: %w", err))
	}
	return book, nil
}

// opened is a platform with its sources.
type opened struct {
	*Platform
	sources *samples.Set
}

func (o *opened) close() {
	if o.Close != nil {
		o.Close()
	}
	o.sources.Close()
}

// open opens the platform, and the sources for it.
func (c *command) open(metrics prometheus.Registerer, log *zap.Logger) (*opened, error) {
	sources, err := OpenSources(c.SourcesFile, metrics, log)
	if err != nil {
		return nil, cli.BadInput(fmt.Errorf("--sources-file: %w", err))
	}
	platform, err := c.program.Open(Parts{Settings: &c.Settings, Flags: c.flags, Sources: sources, Metrics: metrics, Log: log})
	if err != nil {
		sources.Close()
		return nil, cli.BadInput(err)
	}
	return &opened{platform, sources}, nil
}

// maxSourcesBytes bounds the sources' file.
const maxSourcesBytes = 4 << 20

// OpenSources opens the sources of a file; with an empty name, an empty set. It does not
// connect.
func OpenSources(file string, metrics prometheus.Registerer, log *zap.Logger) (*samples.Set, error) {
	var sources samples.Config
	if file != "" {
		text, err := files.Read(file, maxSourcesBytes)
		if err != nil {
			return nil, err
		}
		if sources, err = samples.ParseConfig(text); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return samples.New(sources, samples.Options{Registerer: metrics, Log: log})
}
