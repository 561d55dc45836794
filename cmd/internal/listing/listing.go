// Package listing reads the lists of a server, page by page, up to --limit.
package listing

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
)

const (
	// LargestPage is a server's maximum page size.
	LargestPage = 1000
	// Patience bounds a question for a hint, which a person waits for.
	Patience = 5 * time.Second
	// Everywhere is all namespaces of all clusters.
	Everywhere = "clusters/-/namespaces/-"
)

// Limit adds --limit. A flag writes its default into its variable, so each needs its own.
func Limit(cmd *cobra.Command, limit *int, most int, what string) {
	cmd.Flags().IntVar(limit, "limit", most, "maximum "+what+" to list; 0 means no limit. If some are left out, standard error says so")
}

// Reader reads the page of at most so many items after a token, and returns the token of the next one, "" at the end.
type Reader[T any] func(size int32, token string) ([]T, string, error)

// Targets reads targets. It changes the request.
func Targets(ctx context.Context, client setpointv1.TargetServiceClient, req *setpointv1.ListTargetsRequest) Reader[*setpointv1.Target] {
	return func(size int32, token string) ([]*setpointv1.Target, string, error) {
		req.PageSize, req.PageToken = size, token
		page, err := client.ListTargets(ctx, req)
		return page.GetTargets(), page.GetNextPageToken(), err
	}
}

// Specs reads stored specs. It changes the request. An older server lists all of them where fleets only are asked for.
func Specs(ctx context.Context, client setpointv1.TargetServiceClient, req *setpointv1.ListTargetSpecsRequest) Reader[*setpointv1.TargetSpec] {
	return func(size int32, token string) ([]*setpointv1.TargetSpec, string, error) {
		req.PageSize, req.PageToken = size, token
		page, err := client.ListTargetSpecs(ctx, req)
		return slices.DeleteFunc(page.GetTargetSpecs(), func(s *setpointv1.TargetSpec) bool { return req.GetFleetsOnly() && s.GetFleet() == nil }), page.GetNextPageToken(), err
	}
}

// Each yields the items of all pages. It ends with an error.
func Each[T any](read Reader[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token := ""; ; {
			items, next, err := read(LargestPage, token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}

// List is a list, or the beginning of one.
type List[T any] struct {
	Items []T
	// Next is the token of the page after them, "" at the end. Best has none.
	Next string
	// More reports whether there are more.
	More bool
}

// LeftOut reports on standard error that a list was cut at --limit, so that a part is not
// mistaken for the whole. The server does not report the total.
func (l List[T]) LeftOut(cmd *cobra.Command, what string) {
	if l.More {
		fmt.Fprintf(cmd.ErrOrStderr(), "listed %d %s, and there are more: --limit=0 lists all\n", len(l.Items), what)
	}
}

func checkLimit(limit int) error {
	if limit < 0 {
		return cli.BadInput(fmt.Errorf("--limit: %d is negative; 0 lists all", limit))
	}
	return nil
}

// First reads pages until it has limit items, 0 for no limit. The next page begins after them.
func First[T any](limit int, read Reader[T]) (all List[T], err error) {
	if err := checkLimit(limit); err != nil {
		return all, err
	}
	for {
		size := LargestPage
		if limit > 0 {
			size = min(size, limit-len(all.Items))
		}
		items, next, err := read(int32(size), all.Next)
		if err != nil {
			return all, err
		}
		all.Items, all.Next = append(all.Items, items...), next
		if next == "" {
			return all, nil
		}
		if limit > 0 && len(all.Items) >= limit {
			break
		}
	}
	// A page may end exactly where the list does, and have an empty next page.
	items, next, err := read(1, all.Next)
	all.More = len(items) > 0 || next != ""
	return all, err
}

// Best reads all pages and keeps the first limit items of an order, 0 for all of them. It keeps
// few more than these in memory. A nil order is the server's, of which it reads no further.
func Best[T any](limit int, order func(a, b *T) int, read Reader[T]) (all List[T], err error) {
	if err := checkLimit(limit); err != nil {
		return all, err
	}
	keep := func() {
		if order != nil {
			slices.SortStableFunc(all.Items, func(a, b T) int { return order(&a, &b) })
		}
		if limit > 0 && len(all.Items) > limit {
			clear(all.Items[limit:])
			all.Items, all.More = all.Items[:limit], true
		}
	}
	for item, err := range Each(read) {
		if err != nil {
			return all, err
		}
		all.Items = append(all.Items, item)
		if full := len(all.Items) - limit; limit > 0 && (full > LargestPage || full > 0 && order == nil) {
			if keep(); order == nil {
				return all, nil
			}
		}
	}
	keep()
	return all, nil
}
