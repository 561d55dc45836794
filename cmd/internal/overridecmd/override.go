// Package overridecmd is the command override: of the program, and of the plugin of kubectl.
package overridecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/connection"
	"github.com/setpoint-dev/setpoint/cmd/internal/listing"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// unknown stands for what nobody knows.
const unknown = "?"

// command is shared by the commands on overrides.
type command struct {
	server *connection.Settings
	output *cli.OutputFlag
	limit  int
	// Where PLACE is the name of a target alone.
	namespace, cluster string
	// What create takes.
	override         setpointv1.Override
	id, start, until string
	lasts            *time.Duration // nil: not given
}

// places says what may be overridden, and named what stands for the last of them.
const (
	places = "clusters/CLUSTER, clusters/CLUSTER/namespaces/NAMESPACE or clusters/CLUSTER/namespaces/NAMESPACE/targets/TARGET"
	named  = "or, for a target, CLUSTER/NAMESPACE/TARGET, or with -n NAMESPACE its name such as web or hpa/web"
)

// New returns the command.
func New() *cobra.Command {
	c := &command{output: cli.NewOutputFlag(cli.AsTable, cli.AsJSON, cli.AsYAML)}
	cmd := &cobra.Command{
		Use:   "override",
		Short: "Hold or replace recommendations for a while",
		Long: `Hold or replace the recommendations of a target, a namespace or a cluster for a while: for a migration, an
incident or a load test. The decisions below go on, so that windows and policies are as they would be when it ends.`,
	}
	c.server = connection.Bind(cmd.PersistentFlags(), connection.DefaultServer, "the server")
	cmd.PersistentFlags().VarP(c.output, "output", "o", "form of the output: table, json or yaml")
	cmd.PersistentFlags().StringVarP(&c.namespace, "namespace", "n", "", "`namespace` of a target whose name alone is given")
	cmd.PersistentFlags().StringVar(&c.cluster, "cluster", "", "its `cluster`; empty: the one in which the server knows such a target")

	list := &cobra.Command{
		Use:   "list [PLACE]",
		Short: "List all overrides, or those that act on a cluster, a namespace or a target",
		Long: "List the overrides that have not ended: all of them, or those that act on PLACE or on something in it. PLACE is\n" +
			places + ",\n" + named + ". The oldest come first.",
		Example: "  setpoint override list clusters/eu-1/namespaces/shop/targets/web",
		Args:    cobra.MaximumNArgs(1),
		RunE:    c.list,
	}
	listing.Limit(list, &c.limit, 1000, "overrides")
	cmd.AddCommand(c.newCreate(), list, &cobra.Command{
		Use:   "delete OVERRIDE | PLACE ID",
		Short: "Delete an override: it ends at once",
		Long:  "Delete an override, by its whole name, or by its place and the last part of its name. PLACE is\n" + places + ",\n" + named + ".",
		Example: "  setpoint override delete clusters/eu-1/namespaces/shop/overrides/migration\n" +
			"  setpoint override delete web migration -n shop",
		Args: cobra.RangeArgs(1, 2),
		RunE: c.delete,
	})
	return cmd
}

func (c *command) newCreate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create PLACE --for DURATION --reason TEXT [what]",
		Short: "Create an override of a target, a namespace or a cluster",
		Long: "Create an override of a target, a namespace or a cluster: PLACE is " + places + ",\n" + named + ".\n" +
			"At least one flag says what: --hold, --pin, --floor, --ceiling, --no-scale-down or --no-scale-up.\n\n" +
			"Of all that are in force for a target any hold holds; of pins the most specific counts, then the newest; then the\n" +
			"largest floor and the smallest ceiling, which hold if they contradict each other. The result never leaves the bounds\n" +
			"of the target's spec, except that the current replicas may always be kept.",
		Example: "  setpoint override create clusters/eu-1/namespaces/shop --hold --for 2h --reason \"database migration\"\n" +
			"  setpoint override create web -n shop --no-scale-down --for 90m --reason \"load test\"\n" +
			"  setpoint override create clusters/eu-1/namespaces/shop/targets/web --floor 8 --until \"$(date -u +%F)T23:59:59Z\" --reason \"sale\"",
		Args: cobra.ExactArgs(1),
		RunE: c.create,
	}
	flags := cmd.Flags()
	count := func(to **int32, name, usage string) {
		flags.Func(name, usage, func(text string) error {
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return errors.New("must be a whole number")
			}
			*to = new(int32(n))
			return nil
		})
	}
	flags.BoolVar(&c.override.Hold, "hold", false, "keep the current replicas; not with --pin")
	count(&c.override.Pin, "pin", "set these `replicas` at once; not with --hold")
	count(&c.override.Floor, "floor", "have no fewer `replicas` than this")
	count(&c.override.Ceiling, "ceiling", "have no more `replicas` than this")
	flags.BoolVar(&c.override.NoScaleDown, "no-scale-down", false, "don't remove replicas")
	flags.BoolVar(&c.override.NoScaleUp, "no-scale-up", false, "don't add replicas")
	flags.Func("for", "how long it lasts, a `duration` from its start on, as 90m or 2d12h, at most 30d; this or --until is required", func(text string) error {
		d, err := document.ParseDuration(text)
		if err != nil {
			return errors.New("must be a duration such as 90m, 2h or 2d12h") // a number alone is hardly one of seconds
		}
		c.lasts = &d
		return nil
	})
	flags.StringVar(&c.until, "until", "", "`instant` at which it ends, as 2026-11-27T06:00:00Z")
	flags.StringVar(&c.start, "start", "", "`instant` at which it begins, as 2026-11-27T06:00:00Z; empty: now")
	flags.StringVar(&c.override.Reason, "reason", "", "why, in 1 to 256 characters (required)")
	flags.StringVar(&c.id, "id", "", "last part of its name, of a-z, 0-9 and -; empty: the server chooses. A repeated call with the same id and the same --until creates no other one")
	return cmd
}

// request is that of create.
func (c *command) request(place string, now time.Time) (*setpointv1.CreateOverrideRequest, error) {
	o := &c.override
	var problems []error
	for _, count := range []struct {
		flag string
		n    *int32
	}{{"pin", o.Pin}, {"floor", o.Floor}, {"ceiling", o.Ceiling}} {
		if count.n != nil && *count.n < 0 {
			problems = append(problems, fmt.Errorf("--%s: %d is below 0", count.flag, *count.n))
		}
	}
	at := func(flag, text string) *timestamppb.Timestamp {
		if text == "" {
			return nil
		}
		instant, err := time.Parse(time.RFC3339, text)
		if err != nil {
			example := now.UTC().Format("2006-01-02T15:04:05")
			problems = append(problems, fmt.Errorf("--%s: %q is no instant such as %sZ or %[3]s+01:00: date, time and zone are needed", flag, text, example))
			return nil
		}
		return timestamppb.New(instant)
	}
	o.StartTime, o.ExpireTime = at("start", c.start), at("until", c.until)
	switch {
	case c.lasts != nil && c.until != "":
		problems = append(problems, errors.New("--for and --until both say when it ends: set one"))
	case c.lasts != nil && *c.lasts <= 0:
		problems = append(problems, fmt.Errorf("--for: it lasts %s: must be longer than 0s, such as 90m", *c.lasts))
	case c.lasts != nil:
		if o.GetStartTime() != nil {
			now = o.GetStartTime().AsTime()
		}
		o.ExpireTime = timestamppb.New(now.Add(*c.lasts))
	case c.until == "":
		problems = append(problems, errors.New("--for or --until must say when it ends"))
	}
	if strings.TrimSpace(o.GetReason()) == "" {
		problems = append(problems, errors.New("--reason must say why"))
	}
	if whatOf(o) == "" {
		problems = append(problems, errors.New("it does nothing: set --hold, --pin, --floor, --ceiling, --no-scale-down or --no-scale-up"))
	}
	if err := c.checkPlace(place); err != nil {
		problems = append(problems, err)
	}
	return &setpointv1.CreateOverrideRequest{Parent: place, OverrideId: c.id, Override: o}, cli.BadInput(errors.Join(problems...))
}

func (c *command) create(cmd *cobra.Command, args []string) error {
	began := time.Now()
	req, err := c.request(args[0], began)
	if err != nil {
		return err
	}
	return c.server.Call(func(conn grpc.ClientConnInterface) error {
		var err error
		if req.Parent, err = c.place(cmd.Context(), conn, req.GetParent()); err != nil {
			return err
		}
		resp, err := setpointv1.NewOverrideServiceClient(conn).CreateOverride(cmd.Context(), req)
		if status.Code(err) == codes.AlreadyExists && c.id != "" { // the service speaks of overrideId
			return fmt.Errorf("there is another override %s/overrides/%s: choose another --id, or delete it first. A repeated call needs the same --until, as --for has another end each time",
				req.GetParent(), c.id)
		}
		if err != nil {
			return err
		}
		if hint := hint(cmd.Context(), setpointv1.NewTargetServiceClient(conn), req.GetParent(), resp.GetOverride()); hint != "" {
			defer fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+hint)
		}
		if c.output.Form != cli.AsTable {
			return cli.WriteMessage(cmd.OutOrStdout(), c.output.Form, resp.GetOverride())
		}
		o, created := resp.GetOverride(), "created"
		if at := o.GetCreateTime(); at != nil && began.Sub(at.AsTime()) > time.Second { // by a call that this one repeats
			created += " at " + instant(at)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %s%s until %s%s\n", o.GetName(), created, whatOf(o), from(o, time.Now()), instant(o.GetExpireTime()), bounded(req.GetParent(), o))
		return err
	})
}

func (c *command) delete(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		if err := c.checkPlace(args[0]); err != nil {
			return cli.BadInput(err)
		}
	}
	return c.server.Call(func(conn grpc.ClientConnInterface) error {
		name := args[0]
		if len(args) > 1 {
			place, err := c.place(cmd.Context(), conn, name)
			if err != nil {
				return err
			}
			name = place + "/overrides/" + args[1]
		}
		if _, err := setpointv1.NewOverrideServiceClient(conn).DeleteOverride(cmd.Context(), &setpointv1.DeleteOverrideRequest{Name: name}); err != nil {
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), name+" deleted")
		return err
	})
}

func (c *command) list(cmd *cobra.Command, args []string) error {
	const everywhere = "clusters/-"
	of := everywhere
	if len(args) > 0 && args[0] != everywhere {
		of = args[0]
		if err := c.checkPlace(of); err != nil {
			return cli.BadInput(err)
		}
	}
	var all listing.List[*setpointv1.Override]
	if err := c.server.Call(func(conn grpc.ClientConnInterface) (err error) {
		req := &setpointv1.ListOverridesRequest{Parent: everywhere}
		var listed func(target.Place) bool // nil: all
		if of != everywhere {
			if of, err = c.place(cmd.Context(), conn, of); err != nil {
				return err
			}
			place, _ := target.ParsePlace(of)
			req.Parent = target.Place{Cluster: place.Cluster}.String()
			if place.Target != "" {
				req.Resource = of
			} else if place.Namespace != "" {
				listed = func(o target.Place) bool { return o.Has(place) || place.Has(o) }
			}
		}
		client := setpointv1.NewOverrideServiceClient(conn)
		all, err = listing.Best(c.limit, nil, func(size int32, token string) ([]*setpointv1.Override, string, error) {
			req.PageSize, req.PageToken = size, token
			page, err := client.ListOverrides(cmd.Context(), req)
			return slices.DeleteFunc(page.GetOverrides(), func(o *setpointv1.Override) bool {
				place, _, _ := target.ParseOverride(o.GetName())
				return listed != nil && !listed(place)
			}), page.GetNextPageToken(), err
		})
		return err
	}); err != nil {
		return err
	}
	defer all.LeftOut(cmd, "overrides")
	if c.output.Form != cli.AsTable {
		return cli.WriteMessage(cmd.OutOrStdout(), c.output.Form, &setpointv1.ListOverridesResponse{Overrides: all.Items})
	}
	if len(all.Items) == 0 {
		where := ""
		if of != everywhere {
			where = " of " + of
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no overrides"+where+" that you may read, in force or planned")
		return err
	}
	return write(cmd.OutOrStdout(), all.Items, time.Now())
}

// checkPlace refuses what is neither a place nor the name of a target.
func (c *command) checkPlace(text string) error {
	if _, ok := target.ParsePlace(target.Whole(text)); ok {
		return nil
	}
	name, ok := nameIn(text)
	switch {
	case !ok:
		return fmt.Errorf("%q must be %s, %s", text, places, named)
	case c.namespace == "":
		return fmt.Errorf("%q needs its namespace: give -n NAMESPACE, or clusters/CLUSTER/namespaces/NAMESPACE/targets/%s; a cluster is clusters/%[2]s", text, name)
	case !target.IsSegment(c.namespace):
		return fmt.Errorf("--namespace: %q is no name of a namespace", c.namespace)
	case c.cluster != "" && !target.IsSegment(c.cluster):
		return fmt.Errorf("--cluster: %q is no name of a cluster", c.cluster)
	}
	return nil
}

// nameIn is the name of the target in web, hpa/web or asr/web.
func nameIn(text string) (name string, ok bool) {
	kind, name, of := strings.Cut(text, "/")
	switch strings.ToLower(kind) {
	case "hpa", "horizontalpodautoscaler", "horizontalpodautoscalers", "asr", "autoscaler", "autoscalers":
	default:
		if of {
			return "", false
		}
		name = text
	}
	return name, target.IsSegment(name)
}

// place is the place that a text names. Of a target's name alone the server tells the cluster.
func (c *command) place(ctx context.Context, conn grpc.ClientConnInterface, text string) (string, error) {
	text = target.Whole(text)
	if _, ok := target.ParsePlace(text); ok {
		return text, nil
	}
	name, _ := nameIn(text)
	if c.cluster != "" {
		return target.Name{Cluster: c.cluster, Namespace: c.namespace, Target: name}.String(), nil
	}
	var found []string
	add := func(full string) {
		if of, ok := target.Parse(full); ok && of.Namespace == c.namespace && of.Target == name && !slices.Contains(found, full) {
			found = append(found, full)
		}
	}
	client := setpointv1.NewTargetServiceClient(conn)
	for t, err := range listing.Each(listing.Targets(ctx, client, &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/" + c.namespace})) {
		if err != nil {
			return "", err
		}
		add(t.GetName())
	}
	// Fleets and their members have no history.
	for s, err := range listing.Each(listing.Specs(ctx, client, &setpointv1.ListTargetSpecsRequest{Parent: listing.Everywhere})) {
		if err != nil && status.Code(err) != codes.Unimplemented {
			return "", err
		}
		add(s.GetName())
		for _, m := range s.GetFleet().GetMembers() {
			add(m.GetTarget())
		}
	}
	switch {
	case len(found) == 0:
		return "", fmt.Errorf("no target %s of a namespace %s is known that you may read: give --cluster CLUSTER, or its whole name", name, c.namespace)
	case len(found) > 1:
		return "", fmt.Errorf("%d targets have this name, %s: give --cluster CLUSTER", len(found), printable.Some(found, mostFound))
	}
	return found[0], nil
}

// mostFound is how many of several targets are named.
const mostFound = 4

// write writes a table, the oldest first.
func write(to io.Writer, all []*setpointv1.Override, now time.Time) error {
	w := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "OVERRIDE\tWHAT\tBEGINS\tAGE\tENDS\tAUTHOR\tREASON")
	slices.SortStableFunc(all, func(a, b *setpointv1.Override) int {
		return a.GetStartTime().AsTime().Compare(b.GetStartTime().AsTime())
	})
	for _, o := range all {
		age := "planned"
		if begins := o.GetStartTime().AsTime(); !begins.After(now) {
			age = printable.Age(now.Sub(begins))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.GetName(), whatOf(o), instant(o.GetStartTime()), age, instant(o.GetExpireTime()), printable.Text(cmp.Or(o.GetAuthor(), unknown)), printable.Text(o.GetReason()))
	}
	return w.Flush()
}

func instant(t *timestamppb.Timestamp) string { return t.AsTime().Format(time.RFC3339) }

// whatOf says what an override does, as the flags of create.
func whatOf(o *setpointv1.Override) string {
	var all []string
	flag := func(is bool, name string) {
		if is {
			all = append(all, name)
		}
	}
	count := func(n *int32, name string) {
		if n != nil {
			all = append(all, fmt.Sprintf("%s %d", name, *n))
		}
	}
	flag(o.GetHold(), "hold")
	count(o.Pin, "pin")         //nolint:protogetter // absent is not 0
	count(o.Floor, "floor")     //nolint:protogetter // absent is not 0
	count(o.Ceiling, "ceiling") //nolint:protogetter // absent is not 0
	flag(o.GetNoScaleDown(), "no-scale-down")
	flag(o.GetNoScaleUp(), "no-scale-up")
	return strings.Join(all, ", ")
}

// hint says that the service knows no target on which an override of a place acts, as its name may be mistyped, or
// that the spec of that target limits it. Empty: neither, or it does not tell this caller.
func hint(ctx context.Context, client setpointv1.TargetServiceClient, name string, override *setpointv1.Override) string {
	ctx, cancel := context.WithTimeout(ctx, listing.Patience)
	defer cancel()
	place, _ := target.ParsePlace(name)
	if place.Target != "" {
		known, err := client.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: name})
		spec, what := known.GetTarget().GetSpecInUse().GetSpec(), "target"
		if spec == nil && (err == nil || status.Code(err) == codes.NotFound) {
			stored, notStored := client.GetTargetSpec(ctx, &setpointv1.GetTargetSpecRequest{Name: name})
			if spec = stored.GetTargetSpec().GetSpec(); err != nil {
				err = notStored
			}
			if stored.GetTargetSpec().GetFleet() != nil {
				what = "fleet"
			}
		}
		if status.Code(err) == codes.NotFound {
			// A member of a fleet has no history, and decisions.
			if told, _ := client.ListDecisions(ctx, &setpointv1.ListDecisionsRequest{Parent: name, PageSize: 1}); len(told.GetDecisions()) > 0 {
				return ""
			}
			return "the target is not known yet: the override acts once there is a decision on " + name
		}
		if said := cmp.Or(switchedOff(known.GetTarget()), limits(override, spec, what)); said != "" {
			return said
		}
		return silent(known.GetTarget(), time.Now())
	}
	parent := name
	if place.Namespace == "" {
		parent += "/namespaces/-"
	}
	some, err := client.ListTargets(ctx, &setpointv1.ListTargetsRequest{Parent: parent, PageSize: 1})
	if err != nil || len(some.GetTargets()) > 0 || some.GetNextPageToken() != "" {
		return ""
	}
	specs, err := client.ListTargetSpecs(ctx, &setpointv1.ListTargetSpecsRequest{Parent: parent, PageSize: 1})
	if err != nil && status.Code(err) != codes.Unimplemented || len(specs.GetTargetSpecs()) > 0 || specs.GetNextPageToken() != "" {
		return ""
	}
	if err == nil && hasMember(ctx, client, name) {
		return ""
	}
	return "no target that you may read is known yet in " + name + ": the override acts once there is a decision on one"
}

// hasMember reports whether a fleet has a member in a place, or may have: a member has neither a history nor a spec that is stored.
func hasMember(ctx context.Context, client setpointv1.TargetServiceClient, place string) bool {
	for spec, err := range listing.Each(listing.Specs(ctx, client, &setpointv1.ListTargetSpecsRequest{Parent: listing.Everywhere, FleetsOnly: true})) {
		if err != nil || slices.ContainsFunc(spec.GetFleet().GetMembers(), func(m *setpointv1.FleetMember) bool { return strings.HasPrefix(m.GetTarget(), place+"/") }) {
			return true
		}
	}
	return false
}

// bounded says that the bounds of specs limit an override of many targets. Which of them do is not looked for; hint says it of one target.
func bounded(name string, o *setpointv1.Override) string {
	if place, _ := target.ParsePlace(name); place.Target != "" || o.Pin == nil && o.Floor == nil && o.Ceiling == nil { //nolint:protogetter // absent is not 0
		return ""
	}
	return ", for each target within its minReplicas and maxReplicas"
}

// switchedOff says that somebody set the target's count to 0: no override starts it.
func switchedOff(t *setpointv1.Target) string {
	for _, c := range t.GetStatus().GetConditions() {
		if c.GetReason() == "ScalingDisabled" {
			return "the target is at 0 replicas, and scaling is disabled there: the override acts once somebody has set its count to 1 or more"
		}
	}
	return ""
}

// silent says that no decision was made on a target for some time: an override acts on decisions only.
func silent(t *setpointv1.Target, now time.Time) string {
	interval, last := t.GetInterval().AsDuration(), t.GetLastDecision().GetTime().AsTime()
	if t.GetNotAskedTime() == nil || !now.After(t.GetNotAskedTime().AsTime()) {
		return ""
	}
	usual := ""
	if interval > 0 {
		usual = ", though it has one each " + interval.String()
	}
	return "the last decision on the target was made " + printable.Age(now.Sub(last)) + " ago" + usual + ": nobody asks for it, or its requests are refused, as with stages that are wrong. The override acts once there is a decision again"
}

// limits says which bounds of the spec of a target, or of a fleet, limit an override; empty: none, or the spec is not known.
func limits(o *setpointv1.Override, spec *setpointv1.HorizontalPodAutoscalerSpec, what string) string {
	if spec == nil {
		return ""
	}
	as := ""
	if what == "fleet" { // its members' own minimums count, too
		as = "at least "
	}
	least := validation.MinReplicas(spec)
	for _, one := range []struct {
		name  string
		count *int32
	}{{"pin", o.Pin}, {"floor", o.Floor}, {"ceiling", o.Ceiling}} { //nolint:protogetter // absent is not 0
		switch {
		case one.count == nil:
		case *one.count > spec.GetMaxReplicas() && one.name != "ceiling":
			return fmt.Sprintf("the %s of %d is above maxReplicas %d of the %s: it counts as %d", one.name, *one.count, spec.GetMaxReplicas(), what, spec.GetMaxReplicas())
		case *one.count < least && one.name != "floor":
			return fmt.Sprintf("the %s of %d is below minReplicas %d of the %s: it counts as %s%d", one.name, *one.count, least, what, as, least)
		}
	}
	return ""
}

// from says from when on an override acts that does not yet.
func from(o *setpointv1.Override, now time.Time) string {
	if !o.GetStartTime().AsTime().After(now) {
		return ""
	}
	return " from " + instant(o.GetStartTime())
}

// Of are the overrides that act on a target, now or later, as far as the caller may read them: a line each.
func Of(ctx context.Context, conn grpc.ClientConnInterface, name string, now time.Time) (lines []string, err error) {
	place, ok := target.ParsePlace(name)
	if !ok {
		return nil, nil
	}
	page, err := setpointv1.NewOverrideServiceClient(conn).ListOverrides(ctx, &setpointv1.ListOverridesRequest{
		Parent: target.Place{Cluster: place.Cluster}.String(), Resource: name, PageSize: listing.LargestPage,
	})
	for _, o := range page.GetOverrides() {
		lines = append(lines, fmt.Sprintf("%s%s until %s by %s: %q (%s)", whatOf(o), from(o, now), instant(o.GetExpireTime()), cmp.Or(o.GetAuthor(), "somebody"), o.GetReason(), o.GetName()))
	}
	return lines, err
}
