//go:build !js

package report

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
)

// maxListed bounds the changes that a page lists of each autoscaler, and maxShown the bytes of each input.
const (
	maxListed = 500
	maxShown  = 64 << 10
)

// pageStyle is that of the page around the picture.
const pageStyle = `:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}` +
	`h1{font-size:clamp(1rem,4.5vw,1.4rem);overflow-wrap:anywhere}svg{width:100%;min-width:40rem;height:auto}summary{padding:.3rem 0;overflow-wrap:anywhere}table{border-collapse:collapse;margin:1rem 0}` +
	`th,td{text-align:left;padding:.2rem 1.2rem .2rem 0;border-bottom:1px solid #8884;vertical-align:top}` +
	`th[scope=row]{font-weight:400}th[scope=row].part{padding-left:1rem}td{font-variant-numeric:tabular-nums}td.best{font-weight:600}` +
	`.wide{overflow-x:auto}.note{color:#777}body{background:#fff;color:#222}` +
	`@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}.note{color:#999}}`

// WriteHTML writes one page that needs nothing else: figures, pictures, changes and inputs. It runs no
// script and loads nothing.
func WriteHTML(w io.Writer, r *Report) error {
	var out strings.Builder
	escape := html.EscapeString
	out.WriteString(`<!doctype html><html lang="en"><head><meta charset="utf-8">` +
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">` +
		`<meta name="viewport" content="width=device-width,initial-scale=1">`)
	fmt.Fprintf(&out, "<title>%s – simulation</title><style>%s</style></head><body>\n", escape(r.Name), pageStyle)
	fmt.Fprintf(&out, "<h1>%s</h1>\n<p>%s from %s, %s evaluations, seed %d. Every decision is the production engine's.</p>\n",
		escape(r.Name), spaced(r.Scenario.Duration), escape(r.Scenario.Start.Format("2006-01-02 15:04 MST")), grouped(float64(r.steps())), r.Scenario.Seed)
	// Wide parts scroll by themselves, with the keyboard, too.
	out.WriteString(`<div class="wide" role="region" aria-label="Load and replicas over time" tabindex="0">` + picture(r) + "</div>")
	out.WriteString("\n<div class=\"wide\" role=\"region\" aria-label=\"Figures\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">figure</th>")
	for _, run := range r.Runs {
		fmt.Fprintf(&out, `<th scope="col">%s</th>`, escape(run.Name))
	}
	out.WriteString("</tr></thead><tbody>\n")
	marked := false
	for _, row := range Rows(r) {
		name, class := strings.TrimSpace(row.Name), ""
		if name != row.Name {
			class = ` class="part"`
		}
		fmt.Fprintf(&out, `<tr><th scope="row"%s>%s</th>`, class, escape(name))
		for i, value := range row.Values {
			if slices.Contains(row.Best, i) {
				marked = true
				fmt.Fprintf(&out, `<td class="best">%s</td>`, escape(value))
				continue
			}
			fmt.Fprintf(&out, "<td>%s</td>", escape(value))
		}
		out.WriteString("</tr>\n")
	}
	out.WriteString("</tbody></table></div>\n")
	if marked {
		out.WriteString("<p class=\"note\">Bold: the better figure.</p>\n")
	}
	for _, run := range r.Runs {
		listActions(&out, r, &run)
	}
	for _, in := range r.Inputs {
		text, more := in.Text, ""
		if len(text) > maxShown {
			text, more = strings.ToValidUTF8(text[:maxShown], ""), fmt.Sprintf("<p>and %d bytes more</p>", len(text)-maxShown)
		}
		fmt.Fprintf(&out, "<details><summary>%s</summary><div class=\"wide\" role=\"region\" aria-label=\"%[1]s\" tabindex=\"0\"><pre>%s</pre></div>%s</details>\n", escape(in.Name), escape(text), more)
	}
	out.WriteString("</body></html>\n")
	_, err := io.WriteString(w, out.String())
	return err
}

func listActions(out *strings.Builder, r *Report, run *Run) {
	escape := html.EscapeString
	actions := run.Result.Actions
	fmt.Fprintf(out, "<details><summary>%s: %d changes</summary><div class=\"wide\"><table><thead><tr>"+
		`<th scope="col">time</th><th scope="col">load</th><th scope="col">replicas</th><th scope="col">decided by</th><th scope="col">reason</th>`+
		"</tr></thead><tbody>\n", escape(run.Name), len(actions))
	for i, a := range actions {
		if i == maxListed {
			break
		}
		fmt.Fprintf(out, "<tr><td>%s</td><td>%s</td><td>%d → %d</td><td>%s</td><td>%s</td></tr>\n",
			instantOf(r.Scenario, a.At), grouped(a.Load), a.From, a.To, escape(string(a.Cause)), escape(a.Reason))
	}
	out.WriteString("</tbody></table></div>")
	if more := len(actions) - maxListed; more > 0 {
		fmt.Fprintf(out, "<p>and %d more</p>", more)
	}
	out.WriteString("</details>\n")
}
