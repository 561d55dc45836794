package main

// Units of Grafana's fields.
const (
	unitNone    = "none"
	unitRate    = "ops"
	unitSeconds = "s"
	unitBytes   = "bytes"
	unitShare   = "percentunit"
	unitTime    = "dateTimeAsIso"
	unitCores   = "short"
)

// Widths of panels in Grafana's grid of 24 columns.
const (
	gridWidth   = 24
	quarter     = 6
	third       = 8
	half        = 12
	whole       = 24
	graphHeight = 8
	statWidth   = 4
	statHeight  = 4
	rowHeight   = 1
	tableHeight = 10
)

// query is one PromQL expression and the name of its series, a template of labels.
type query struct {
	expr   string
	legend string
}

// panel is one picture of a dashboard. Its place follows from its order and size.
type panel struct {
	kind    string // Grafana's type: timeseries, stat, table or row
	title   string
	about   string // what it shows, and which values are bad
	unit    string
	width   int
	height  int
	queries []query
	stack   bool
	// Of a stat: at or above this value it is red; 0 means that it has no threshold.
	redFrom float64
	// Of a stat: below this value it is red; 0 means that it has no threshold.
	redBelow float64
	// Of a stat: words instead of values.
	words map[string]string
	// What a stat shows without data; empty: Grafana's own words.
	noData string
}

// graph returns a plot over time, half a row wide.
func graph(title, unit, about string, queries ...query) panel {
	return panel{kind: "timeseries", title: title, about: about, unit: unit, width: half, height: graphHeight, queries: queries}
}

// stacked returns a plot over time whose series add up.
func stacked(title, unit, about string, queries ...query) panel {
	p := graph(title, unit, about, queries...)
	p.stack = true
	return p
}

// stat returns the present value of one query.
func stat(title, unit, about, expr string) panel {
	return panel{kind: "stat", title: title, about: about, unit: unit, width: statWidth, height: statHeight, queries: []query{{expr: expr}}}
}

// table returns the present values of a query by its labels, a row each.
func table(title, about string, columns ...query) panel {
	return panel{kind: "table", title: title, about: about, unit: unitNone, width: whole, height: tableHeight, queries: columns}
}

// row returns the heading of the panels that follow.
func row(title string) panel {
	return panel{kind: "row", title: title, width: whole, height: rowHeight}
}

// as returns a copy of the panel with another width.
func (p panel) as(width int) panel {
	p.width = width
	return p
}

// of returns a copy of the panel with another unit.
func (p panel) of(unit string) panel {
	p.unit = unit
	return p
}

// red returns a copy of a stat that is red at or above a value.
func (p panel) red(from float64) panel {
	p.redFrom = from
	return p
}

// below returns a copy of a stat that is red below a value.
func (p panel) below(value float64) panel {
	p.redBelow = value
	return p
}

// without returns a copy of the panel that says why where it has no data.
func (p panel) without(why string) panel {
	p.noData = why
	return p
}

// named returns a copy of a stat that shows words for 0 and 1.
func (p panel) named(zero, one string) panel {
	p.words = map[string]string{"0": zero, "1": one}
	return p
}

// object is JSON.
type object = map[string]any

// datasource is the one that the reader chooses at the top of the dashboard.
var datasource = object{"type": "prometheus", "uid": "${datasource}"}

// json returns the panel as Grafana reads it, at a place of the grid.
func (p panel) json(id, x, y int) object {
	out := object{
		"id": id, "type": p.kind, "title": p.title,
		"gridPos": object{"x": x, "y": y, "w": p.width, "h": p.height},
	}
	if p.kind == "row" {
		out["collapsed"] = false
		out["panels"] = []any{}
		return out
	}
	out["description"] = p.about
	out["datasource"] = datasource
	out["targets"] = p.targets()
	out["fieldConfig"] = object{"defaults": p.defaults(), "overrides": []any{}}
	switch p.kind {
	case "timeseries":
		out["options"] = object{
			"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
	case "stat":
		out["options"] = object{
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
			"colorMode":     "value", "graphMode": "none", "textMode": "auto",
		}
	case "table":
		out["options"] = object{"showHeader": true}
		out["transformations"] = p.transformations()
	}
	return out
}

// targets returns the queries. Tables and stats query current values: the last value of a range
// may be that of a stopped program.
func (p panel) targets() []object {
	targets := make([]object, len(p.queries))
	for i, q := range p.queries {
		targets[i] = object{"refId": string(rune('A' + i)), "datasource": datasource, "expr": q.expr, "legendFormat": q.legend}
		switch p.kind {
		case "table":
			targets[i]["format"] = "table"
			targets[i]["instant"] = true
		case "stat":
			targets[i]["instant"] = true
		default:
			targets[i]["range"] = true
		}
	}
	return targets
}

// transformations join the queries of a table by their labels and name their columns.
func (p panel) transformations() []object {
	names := object{"Time": "", "Time 1": "", "Time 2": "", "Time 3": ""}
	hidden := object{"Time": true}
	for i, q := range p.queries {
		names["Value #"+string(rune('A'+i))] = q.legend
	}
	return []object{
		{"id": "merge", "options": object{}},
		{"id": "organize", "options": object{"excludeByName": hidden, "renameByName": names}},
	}
}

// defaults returns how values are drawn.
func (p panel) defaults() object {
	defaults := object{"unit": p.unit, "color": object{"mode": "palette-classic"}}
	if p.unit == unitShare {
		defaults["min"] = 0
	}
	if p.noData != "" {
		defaults["noValue"] = p.noData
	}
	switch p.kind {
	case "timeseries":
		custom := object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "axisSoftMin": 0}
		if p.stack {
			custom["stacking"] = object{"mode": "normal", "group": "A"}
			custom["fillOpacity"] = 40
		}
		defaults["custom"] = custom
	case "stat":
		defaults["color"] = object{"mode": "thresholds"}
		defaults["thresholds"] = object{"mode": "absolute", "steps": p.steps()}
		if p.words != nil {
			words := object{}
			for value, text := range p.words {
				words[value] = object{"text": text}
			}
			defaults["mappings"] = []object{{"type": "value", "options": words}}
		}
	}
	return defaults
}

// steps returns the colours of a stat.
func (p panel) steps() []object {
	const good, bad, plain = "green", "red", "blue"
	switch {
	case p.redFrom > 0:
		return []object{{"color": good, "value": nil}, {"color": bad, "value": p.redFrom}}
	case p.redBelow > 0:
		return []object{{"color": bad, "value": nil}, {"color": good, "value": p.redBelow}}
	default:
		return []object{{"color": plain, "value": nil}}
	}
}
