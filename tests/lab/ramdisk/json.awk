# Reads one JSON text and prints a line PATH<TAB>VALUE for every value in it: {"a":{"b":["x"]}} gives a, a.b and a.b.0.
# Objects and arrays print {} and [] for themselves. Line breaks and tabs inside strings become spaces. Exits 1 on what
# is not JSON.

BEGIN { RS = "\001" }

{
    text = $0
    at = 1
    value("", 0)
    skip()
    if (at <= length(text)) fail()
    seen = 1
}

END { exit failed || !seen }

function fail() { failed = 1; exit }

function skip() { while (substr(text, at, 1) ~ /[ \t\r\n]/) at++ }

function next_is(character) {
    skip()
    if (substr(text, at, 1) != character) return 0
    at++
    return 1
}

function emit(path, what) { if (path != "") print path "\t" what }

function string(    raw) {
    skip()
    if (!match(substr(text, at), /^"([^"\\]|\\.)*"/)) fail()
    raw = substr(text, at + 1, RLENGTH - 2)
    at += RLENGTH
    gsub(/\\[nrtbf]/, " ", raw)
    gsub(/[\n\r\t]/, " ", raw)
    gsub(/\\\//, "/", raw)
    gsub(/\\"/, "\"", raw)
    gsub(/\\\\/, "\\", raw)
    return raw
}

function value(path, depth,    first, key, prefix) {
    if (depth > 32) fail()
    skip()
    first = substr(text, at, 1)
    prefix = path == "" ? "" : path "."
    if (first == "{") {
        at++
        emit(path, "{}")
        if (next_is("}")) return
        do {
            key = string()
            if (!next_is(":")) fail()
            value(prefix key, depth + 1)
        } while (next_is(","))
        if (!next_is("}")) fail()
    } else if (first == "[") {
        at++
        emit(path, "[]")
        if (next_is("]")) return
        key = 0
        do value(prefix key++, depth + 1); while (next_is(","))
        if (!next_is("]")) fail()
    } else if (first == "\"") {
        emit(path, string())
    } else {
        if (!match(substr(text, at), /^(true|false|null|-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?)/)) fail()
        emit(path, substr(text, at, RLENGTH))
        at += RLENGTH
    }
}
