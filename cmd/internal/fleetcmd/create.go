package fleetcmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/specfile"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// creation is what create takes.
type creation struct {
	file            string
	least, most     int32
	cpu             percent
	members, scopes []string
	stale, lost     time.Duration
	period          time.Duration
	onLost          string
	surviveOne      bool
	maxMoves        int32
	replace         bool
}

func (c *command) newCreate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create FLEET --member MEMBER --member MEMBER {-f FILE | --max REPLICAS}",
		Short: "Create a fleet of several targets",
		Long: "Create a fleet. Its spec, which is for the sum of the members, is that of FILE, as setpoint specs set takes it, or\n" +
			"--min, --max and --cpu. FILE may have the members, too, under fleet; then flags add to them.\n\n" +
			"MEMBER is a target, and after commas its weight, min and max: west/shop/web,weight=2,min=1,max=20. A cluster alone\n" +
			"stands for the target of the fleet's namespace and name there. The members' agents then get the fleet's name as a\n" +
			"setting of the workload: the annotation setpoint.dev/fleet, spec.fleet of an Autoscaler, the label setpoint.fleet.",
		Example: "  setpoint fleet create all/shop/web --member west --member east,weight=2 --min 2 --max 40 --cpu 60\n" +
			"  setpoint fleet create all/shop/worker -f worker.yaml --member west --member east --scope External:queue=global",
		Args: cobra.ExactArgs(1),
		RunE: c.create,
	}
	n, flags := &c.created, cmd.Flags()
	flags.StringVarP(&n.file, "file", "f", "", "`file` of the spec, - for standard input")
	flags.Int32Var(&n.least, "min", 1, "minimum `replicas` of all members together, without --file")
	flags.Int32Var(&n.most, "max", 0, "maximum `replicas` of all members together, without --file")
	n.cpu = 80
	flags.Var(&n.cpu, "cpu", "target of the usage of cpu, `percent` of what is requested, without --file")
	flags.StringArrayVar(&n.members, "member", nil, "`member`, with weight, min and max after commas; once for each")
	flags.StringArrayVar(&n.scopes, "scope", nil, "`METRIC=SCOPE`: whether members read parts of an Object or External metric (per-member) or all the same whole (global), as External:queue=global; once for each such metric")
	flags.DurationVar(&n.period, "period", 0, "time between decisions; 0: the file's, or 15s")
	flags.DurationVar(&n.stale, "stale-after", 0, "how long a member is silent until its pods count as pods without metrics; 0: the file's, or three periods")
	flags.DurationVar(&n.lost, "lost-after", 0, "how long it is silent until it is lost; 0: the file's, or 5m")
	flags.StringVar(&n.onLost, "on-lost", "", "what becomes of the share of a lost member: hold keeps it, shift gives it to the others; empty: the file's, or hold")
	flags.BoolVar(&n.surviveOne, "survive-one", false, "share out so many replicas that the count remains without the largest member")
	flags.Int32Var(&n.maxMoves, "max-moves", 0, "how many replicas a decision moves between members; 0: the file's, or none but from drained members")
	flags.BoolVar(&n.replace, "replace", false, "replace the fleet, or the other spec, that is stored under this name")
	return cmd
}

// spec is the spec to store, from the file and the flags. The error lists all that is wrong with these.
func (n *creation) spec(cmd *cobra.Command, name string) (*setpointv1.TargetSpec, error) {
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	out := &setpointv1.TargetSpec{}
	switch changed := cmd.Flags().Changed; {
	case n.file != "" && (changed("min") || changed("max") || changed("cpu")):
		refuse("--file has the spec: --min, --max and --cpu must be in it")
	case n.file != "":
		read, err := specfile.Read(cmd, n.file)
		if err != nil {
			return nil, err
		}
		out = read.Stored
	case n.most <= 0:
		refuse("a spec is needed: give --file, or --max with --min and --cpu")
	case n.least > n.most:
		refuse("--min: %d is above --max %d", n.least, n.most)
	default:
		out.Spec = &setpointv1.HorizontalPodAutoscalerSpec{MinReplicas: &n.least, MaxReplicas: n.most, Metrics: []*setpointv1.MetricSpec{{
			Type: "Resource", Resource: &setpointv1.ResourceMetricSource{Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(n.cpu))}},
		}}}
	}
	if out.Fleet == nil {
		out.Fleet = &setpointv1.FleetSpec{}
	}
	f := out.GetFleet()
	for _, text := range n.members {
		m, err := memberIn(text, name)
		if err != nil {
			refuse("--member: %w", err)
			continue
		}
		f.Members = append(f.Members, m)
	}
	if len(problems) == 0 && len(f.GetMembers()) < 2 {
		refuse("a fleet has at least two members, and %d are named: give --member for each", len(f.GetMembers()))
	}
	for _, text := range n.scopes {
		at := strings.LastIndex(text, "=")
		scope := strings.ToUpper(strings.ReplaceAll(text[at+1:], "-", "_"))
		if at <= 0 || scope != "GLOBAL" && scope != "PER_MEMBER" {
			refuse("--scope: %.128q must be METRIC=global or METRIC=per-member, such as External:queue=global", text)
			continue
		}
		if f.Scopes == nil {
			f.Scopes = map[string]string{}
		}
		f.Scopes[text[:at]] = scope
	}
	for _, one := range []struct {
		d  time.Duration
		to **durationpb.Duration
	}{{n.period, &out.Period}, {n.stale, &f.StaleAfter}, {n.lost, &f.LostAfter}} {
		if one.d != 0 {
			*one.to = durationpb.New(one.d)
		}
	}
	if n.stale != 0 && n.lost != 0 && n.lost < n.stale {
		refuse("--lost-after: %s is less than --stale-after %s", n.lost, n.stale)
	}
	switch onLost := strings.ToUpper(n.onLost); onLost {
	case "":
	case "HOLD", "SHIFT":
		f.OnLost = onLost
	default:
		refuse("--on-lost: %.32q must be hold or shift", n.onLost)
	}
	f.SurviveOne = f.GetSurviveOne() || n.surviveOne
	if n.maxMoves != 0 {
		f.MaxMoves = n.maxMoves
	}
	return out, cli.BadInput(errors.Join(problems...))
}

// violations are what the server would refuse of a fleet whatever its options are.
func violations(req *setpointv1.SetTargetSpecRequest) []validation.Violation {
	all, spec := validation.Structure(req), req.GetTargetSpec()
	if spec.GetSpec() == nil {
		return all
	}
	in := &recommender.Input{}
	in.Spec, in.Options, _ = conversion.Spec(spec.GetSpec(), spec.GetOptions(), recommender.DefaultOptions())
	_, more := conversion.Fleet(req.GetName(), spec, in)
	for _, v := range more {
		v.Field = "targetSpec." + v.Field
		all = append(all, v)
	}
	return all
}

// percent is a percentage, with or without a sign.
type percent int32

// String implements pflag.Value.
func (p *percent) String() string { return fmt.Sprint(int32(*p)) }

// Type implements pflag.Value.
func (p *percent) Type() string { return "int32" }

// Set implements pflag.Value.
func (p *percent) Set(text string) error {
	n, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 32)
	if err != nil || n < 1 {
		return errors.New("must be a whole number of percent from 1, such as 60")
	}
	*p = percent(n)
	return nil
}

// memberIn reads MEMBER[,weight=N][,min=N][,max=N]. A cluster alone is that of the fleet's target there.
func memberIn(text, fleet string) (*setpointv1.FleetMember, error) {
	who, rest, more := strings.Cut(text, ",")
	m := &setpointv1.FleetMember{}
	var err error
	if target.IsSegment(who) {
		of, _ := target.Parse(fleet)
		of.Cluster = who
		m.Target = of.String()
	} else if m.Target, err = nameOf("member", who); err != nil {
		return nil, err
	}
	for more {
		var pair string
		pair, rest, more = strings.Cut(rest, ",")
		key, value, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseInt(value, 10, 32)
		switch {
		case key != "weight" && key != "min" && key != "max":
			return nil, fmt.Errorf("%.128q has %.64q: weight=N, min=N and max=N may follow a member, after commas", text, pair)
		case err != nil || n < 0:
			return nil, fmt.Errorf("%.128q: %s must be a whole number from 0", text, key)
		case key == "weight" && n == 0 || key == "max" && n == 0:
			return nil, fmt.Errorf("%.128q: %s must be above 0; setpoint fleet drain makes a member become empty", text, key)
		case key == "weight":
			m.Weight = new(int32(n))
		case key == "min":
			m.MinReplicas = int32(n)
		default:
			m.MaxReplicas = new(int32(n))
		}
	}
	return m, nil
}

func (c *command) create(cmd *cobra.Command, args []string) error {
	name, err := nameOf("fleet", args[0])
	if err != nil {
		return cli.BadInput(err)
	}
	spec, err := c.created.spec(cmd, name)
	if err != nil {
		return err
	}
	// Before what is stored: --replace would be asked for first, and tell of the rest only then.
	req := &setpointv1.SetTargetSpecRequest{Name: name, TargetSpec: spec}
	if err := apierror.Invalid(violations(req)); err != nil {
		return err
	}
	return c.ask(func(client setpointv1.TargetServiceClient) error {
		known, err := client.GetTargetSpec(cmd.Context(), &setpointv1.GetTargetSpecRequest{Name: name})
		switch {
		case err != nil && status.Code(err) != codes.NotFound:
			return err
		case err == nil && !c.created.replace:
			what := "a spec that is no fleet"
			if f := known.GetTargetSpec().GetFleet(); f != nil {
				what = fmt.Sprintf("a fleet of %d members", len(f.GetMembers()))
			}
			return fmt.Errorf("%s is stored under the name %s: --replace replaces it", what, name)
		case err == nil && spec.GetEtag() == "":
			spec.Etag = known.GetTargetSpec().GetEtag() // what others store meanwhile stays
		}
		resp, err := client.SetTargetSpec(cmd.Context(), req)
		if err != nil {
			return err
		}
		stored := resp.GetTargetSpec()
		if stored.GetFleet() == nil {
			return errors.New("the server stored the spec without its members: it is older than fleets. setpoint specs delete " + name + " deletes the spec")
		}
		if c.output.Form != cli.AsTable {
			return cli.WriteMessage(cmd.OutOrStdout(), c.output.Form, stored)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "fleet %s stored: %d members, %d to %d replicas.\n"+
			"It decides once the agent of each member names it, as fleet or setpoint.dev/fleet.\n",
			name, len(stored.GetFleet().GetMembers()), validation.MinReplicas(stored.GetSpec()), stored.GetSpec().GetMaxReplicas())
		if before := known.GetTargetSpec(); err == nil && before.GetFleet() != nil && !slices.EqualFunc(before.GetSpec().GetMetrics(), stored.GetSpec().GetMetrics(), func(a, b *setpointv1.MetricSpec) bool { return proto.Equal(a, b) }) {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "Its metrics are others now: calls of its members are refused until their own specs have the same.")
		}
		return err
	})
}
