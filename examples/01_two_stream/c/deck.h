/* The input deck: read, checked, and refused with the line and the key that are wrong.

       text of two_stream.toml -> entries (section, key, text, line) -> rules -> struct deck

   Of TOML this knows what the deck needs: comments, [section], [[beam]], and keys with an
   integer, a number or a text in quotes. Nothing else of the example knows TOML. */

#ifndef TWO_STREAM_DECK_H
#define TWO_STREAM_DECK_H

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECK_BEAMS 16 /* most beams */
#define DECK_NAME 65  /* bytes of a beam's name, with the final 0 */

/* One cold beam of particles. */
struct beam {
    char name[DECK_NAME];
    double plasma_frequency; /* wp of this beam alone [wp] */
    double charge_to_mass;   /* q/m */
    double drift;            /* v0 [U] */
    int64_t mode;            /* excited mode of the box */
    double displacement;     /* amplitude of the excitation [U/wp] */
    int64_t count;           /* particles */
};

/* Everything that defines a run. */
struct deck {
    double length; /* [U/wp] */
    int64_t grid;
    double dt; /* [1/wp] */
    int64_t steps, snapshot_every;
    int64_t count; /* particles of all beams */
    double field_amplitude; /* [m U wp/e] */
    int64_t field_mode;
    double field_limit; /* [m U wp/e] */
    int beams;
    struct beam beam[DECK_BEAMS];
};

/* Why a deck cannot be used: file, line, key, value and what is wanted. */
struct deck_error {
    char text[1024];
};

static double deck_dx(const struct deck *deck) { return deck->length / (double)deck->grid; }

/* --- rules: what each key may be, and where it goes ------------------------------------------ */

enum deck_kind { POSITIVE, FINITE, NONZERO, INTEGER, NAME };

struct deck_rule {
    const char *section, *key;
    size_t at; /* in struct deck; for [[beam]] in struct beam */
    enum deck_kind kind;
    int64_t low, high; /* of an integer */
    const char *words;
};

#define DECK(key) offsetof(struct deck, key)
#define BEAM(key) offsetof(struct beam, key)

static const struct deck_rule DECK_RULES[] = {
    {"box", "length", DECK(length), POSITIVE, 0, 0, "a number above 0"},
    {"box", "grid", DECK(grid), INTEGER, 4, 1000000, "an integer from 4 to 10^6"},
    {"time", "dt", DECK(dt), POSITIVE, 0, 0, "a number above 0"},
    {"time", "steps", DECK(steps), INTEGER, 1, 10000000000, "an integer from 1 to 10^10"},
    {"time", "snapshot_every", DECK(snapshot_every), INTEGER, 1, 10000000000, "an integer from 1 to 10^10"},
    {"particles", "count", DECK(count), INTEGER, 1, 10000000000, "an integer from 1 to 10^10"},
    {"beam", "name", BEAM(name), NAME, 0, 0, "a name of letters, digits and underscores"},
    {"beam", "plasma_frequency", BEAM(plasma_frequency), POSITIVE, 0, 0, "a number above 0"},
    {"beam", "charge_to_mass", BEAM(charge_to_mass), NONZERO, 0, 0, "a finite number other than 0"},
    {"beam", "drift", BEAM(drift), FINITE, 0, 0, "a finite number"},
    {"beam", "mode", BEAM(mode), INTEGER, 1, 1000000, "an integer from 1 to 10^6"},
    {"beam", "displacement", BEAM(displacement), FINITE, 0, 0, "a finite number"},
    {"field", "amplitude", DECK(field_amplitude), FINITE, 0, 0, "a finite number"},
    {"field", "mode", DECK(field_mode), INTEGER, 1, 1000000, "an integer from 1 to 10^6"},
    {"field", "limit", DECK(field_limit), POSITIVE, 0, 0, "a number above 0"},
};
enum { DECK_NRULES = sizeof DECK_RULES / sizeof DECK_RULES[0] };

/* --- entries: the lines of the file ----------------------------------------------------------- */

#define DECK_WORD 128    /* bytes of a key or a value */
#define DECK_ENTRIES 256 /* most lines that say something */

struct deck_entry {
    char section[DECK_WORD], key[DECK_WORD], value[DECK_WORD]; /* key "": the section's own line */
    int index;                                                 /* of a [[beam]] */
    int line;
    int quoted; /* the value is a text */
};

struct deck_file {
    const char *path;
    int entries, beams;
    struct deck_entry entry[DECK_ENTRIES];
    struct deck_error *error;
};

/* Writes an error; returns -1. `line` 0: the file as a whole. */
static int deck_fault(struct deck_file *file, int line, const char *section, const char *key, const char *format, ...)
{
    char *text = file->error->text, place[16] = "";
    size_t room = sizeof file->error->text;
    if (line > 0)
        snprintf(place, sizeof place, ":%d", line);
    int n = snprintf(text, room, "%s%s: ", file->path, place);
    if (section && n > 0 && (size_t)n < room)
        n += snprintf(text + n, room - (size_t)n, key && *key ? "[%s] %s: " : "[%s]: ", section, key);
    if (n < 0 || (size_t)n >= room)
        return -1;
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, room - (size_t)n, format, args);
    va_end(args);
    return -1;
}

/* Takes blanks away at both ends, in place. */
static char *deck_trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = 0;
    return text;
}

/* Ends a line where its comment begins. */
static void deck_uncomment(char *line)
{
    char quote = 0;
    for (; *line; line++) {
        if (quote)
            quote = *line == quote ? 0 : quote;
        else if (*line == '"' || *line == '\'')
            quote = *line;
        else if (*line == '#') {
            *line = 0;
            return;
        }
    }
}

/* `[name]` or `[[name]]`: begins a section. */
static int deck_header(struct deck_file *file, char *text, int line, struct deck_entry *out)
{
    size_t n = strlen(text);
    int list = n > 4 && text[1] == '[' && text[n - 1] == ']' && text[n - 2] == ']';
    if (text[n - 1] != ']' || n < 3 || (!list && text[1] == '['))
        return deck_fault(file, line, NULL, NULL, "not TOML: a section looks like [name], a beam like [[beam]]");
    text[n - (list ? 2 : 1)] = 0;
    char *name = deck_trim(text + (list ? 2 : 1));
    int known = 0, beam = strcmp(name, "beam") == 0;
    for (int r = 0; r < DECK_NRULES; r++)
        known |= strcmp(name, DECK_RULES[r].section) == 0;
    if (!known)
        return deck_fault(file, line, name, NULL, "unknown; known are box, time, particles, beam, field");
    if (list != beam)
        return deck_fault(file, line, name, NULL, beam ? "beams are a list: write [[beam]]" : "write [%s]", name);
    for (int e = 0; e < file->entries && !beam; e++)
        if (strcmp(file->entry[e].section, name) == 0)
            return deck_fault(file, line, name, NULL, "begins a second time; it began in line %d", file->entry[e].line);
    if (beam && file->beams == DECK_BEAMS)
        return deck_fault(file, line, name, NULL, "more than %d beams", DECK_BEAMS);
    snprintf(out->section, DECK_WORD, "%s", name);
    out->index = beam ? file->beams++ : 0;
    return 0;
}

/* `key = value`. */
static int deck_pair(struct deck_file *file, char *text, int line, struct deck_entry *out)
{
    char *equal = strchr(text, '=');
    if (!equal)
        return deck_fault(file, line, NULL, NULL, "not TOML: \"%.60s\" is neither [section] nor key = value", text);
    *equal = 0;
    char *key = deck_trim(text), *value = deck_trim(equal + 1);
    size_t n = strlen(value);
    if (!*out->section)
        return deck_fault(file, line, NULL, NULL, "%.60s stands before the first [section]", key);
    if (!*key || !n)
        return deck_fault(file, line, out->section, key, "not TOML: write key = value");
    out->quoted = *value == '"' || *value == '\'';
    if (out->quoted) {
        if (n < 2 || value[n - 1] != *value || strchr(value, '\\'))
            return deck_fault(file, line, out->section, key, "not TOML: a text stands in quotes, without backslashes");
        value[n - 1] = 0;
        value++;
    }
    if (strlen(key) >= DECK_WORD || strlen(value) >= DECK_WORD)
        return deck_fault(file, line, out->section, "", "key or value is longer than %d bytes", DECK_WORD - 1);
    for (int e = 0; e < file->entries; e++) {
        const struct deck_entry *other = &file->entry[e];
        if (strcmp(other->section, out->section) == 0 && other->index == out->index && strcmp(other->key, key) == 0)
            return deck_fault(file, line, out->section, key, "given a second time; the first is in line %d", other->line);
    }
    snprintf(out->key, DECK_WORD, "%s", key);
    snprintf(out->value, DECK_WORD, "%s", value);
    return 0;
}

/* Reads all lines. */
static int deck_lines(struct deck_file *file, FILE *stream)
{
    char buffer[1024];
    struct deck_entry now = {0};
    for (int line = 1; fgets(buffer, sizeof buffer, stream); line++) {
        if (!strchr(buffer, '\n') && !feof(stream))
            return deck_fault(file, line, NULL, NULL, "longer than %zu bytes", sizeof buffer - 2);
        deck_uncomment(buffer);
        char *text = deck_trim(buffer);
        if (!*text)
            continue;
        if (file->entries == DECK_ENTRIES)
            return deck_fault(file, line, NULL, NULL, "more than %d keys and sections", DECK_ENTRIES);
        now.line = line;
        now.key[0] = now.value[0] = 0;
        if (*text == '[' ? deck_header(file, text, line, &now) : deck_pair(file, text, line, &now))
            return -1;
        file->entry[file->entries++] = now;
    }
    if (ferror(stream))
        return deck_fault(file, 0, NULL, NULL, "cannot read the deck: %s", strerror(errno));
    return 0;
}

/* --- values ----------------------------------------------------------------------------------- */

/* Stores a value where its rule says; 0 if it is not what the rule wants. */
static int deck_store(const struct deck_rule *rule, const struct deck_entry *entry, char *to)
{
    char digits[DECK_WORD], *end = digits, *out = digits;
    if (rule->kind == NAME) {
        size_t n = strspn(entry->value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
        if (!entry->quoted || n == 0 || n != strlen(entry->value) || n >= DECK_NAME)
            return 0;
        strcpy(to, entry->value);
        return 1;
    }
    for (const char *c = entry->value; *c; c++)
        if (*c != '_')
            *out++ = *c;
    *out = 0;
    if (entry->quoted || !strpbrk(digits, "0123456789") || strpbrk(digits, "xX"))
        return 0;
    if (rule->kind == INTEGER) {
        errno = 0;
        long long value = strtoll(digits, &end, 10);
        if (*end || errno || value < rule->low || value > rule->high)
            return 0;
        *(int64_t *)to = value;
        return 1;
    }
    double value = strtod(digits, &end);
    if (*end || !isfinite(value) || (rule->kind == POSITIVE && value <= 0) || (rule->kind == NONZERO && value == 0))
        return 0;
    *(double *)to = value;
    return 1;
}

/* The entry of a key, or of the section itself (key ""). */
static const struct deck_entry *deck_find(const struct deck_file *file, const char *section, int index, const char *key)
{
    for (int e = 0; e < file->entries; e++) {
        const struct deck_entry *entry = &file->entry[e];
        if (strcmp(entry->section, section) == 0 && entry->index == index && strcmp(entry->key, key) == 0)
            return entry;
    }
    return NULL;
}

/* Fills one section, at `base`, by its rules. */
static int deck_section(struct deck_file *file, const char *section, int index, void *base)
{
    const struct deck_entry *head = deck_find(file, section, index, "");
    if (!head)
        return deck_fault(file, 0, NULL, NULL, "the section [%s] is missing", section);
    for (int e = 0; e < file->entries; e++) {
        const struct deck_entry *entry = &file->entry[e];
        int known = !*entry->key || strcmp(entry->section, section) != 0;
        for (int r = 0; r < DECK_NRULES; r++)
            known |= strcmp(DECK_RULES[r].section, section) == 0 && strcmp(DECK_RULES[r].key, entry->key) == 0;
        if (!known)
            return deck_fault(file, entry->line, section, entry->key, "unknown key");
    }
    for (int r = 0; r < DECK_NRULES; r++) {
        const struct deck_rule *rule = &DECK_RULES[r];
        if (strcmp(rule->section, section) != 0)
            continue;
        const struct deck_entry *entry = deck_find(file, section, index, rule->key);
        if (!entry)
            return deck_fault(file, head->line, section, NULL, "the key '%s' is missing; give %s", rule->key, rule->words);
        if (!deck_store(rule, entry, (char *)base + rule->at))
            return deck_fault(file, entry->line, section, rule->key, "%s = %s is not %s", rule->key, entry->value, rule->words);
    }
    return 0;
}

/* Shares the particles among the beams. */
static int deck_share(struct deck *deck, int64_t count, struct deck_error *error)
{
    if (count < 1 || count % deck->beams) {
        snprintf(error->text, sizeof error->text,
                 "%" PRId64 " particles cannot be shared evenly by %d beams; give a multiple of %d", count,
                 deck->beams, deck->beams);
        return -1;
    }
    deck->count = count;
    for (int b = 0; b < deck->beams; b++)
        deck->beam[b].count = count / deck->beams;
    return 0;
}

/* What no single key can tell. */
static int deck_whole(struct deck_file *file, struct deck *deck)
{
    struct deck_error shared;
    double fastest = 0;
    for (int b = 0; b < deck->beams; b++) {
        fastest = fmax(fastest, deck->beam[b].plasma_frequency);
        for (int other = 0; other < b; other++)
            if (strcmp(deck->beam[b].name, deck->beam[other].name) == 0)
                return deck_fault(file, deck_find(file, "beam", b, "name")->line, "beam", "name", "'%s' names two beams", deck->beam[b].name);
    }
    if (deck_share(deck, deck->count, &shared))
        return deck_fault(file, deck_find(file, "particles", 0, "count")->line, "particles", "count", "%s", shared.text);
    if (fabs(deck->field_amplitude) > deck->field_limit)
        return deck_fault(file, deck_find(file, "field", 0, "amplitude")->line, "field", "amplitude", "%g is beyond the limit of %g", deck->field_amplitude, deck->field_limit);
    if (deck->dt * fastest >= 2.0)
        return deck_fault(file, deck_find(file, "time", 0, "dt")->line, "time", "dt", "leap-frog is unstable: dt times the plasma frequency must be below 2");
    return 0;
}

/* Reads a deck; -1 and a text for whatever is missing, unknown or out of range. */
static int deck_load(const char *path, struct deck *deck, struct deck_error *error)
{
    static const char *const SECTIONS[] = {"box", "time", "particles", "field"};
    static struct deck_file file;
    memset(&file, 0, sizeof file);
    memset(deck, 0, sizeof *deck);
    file.path = path;
    file.error = error;
    FILE *stream = fopen(path, "r");
    if (!stream)
        return deck_fault(&file, 0, NULL, NULL, "cannot read the deck: %s", strerror(errno));
    int bad = deck_lines(&file, stream);
    fclose(stream);
    for (int s = 0; s < 4 && !bad; s++)
        bad = deck_section(&file, SECTIONS[s], 0, deck);
    if (!bad && file.beams == 0)
        return deck_fault(&file, 0, NULL, NULL, "there is no [[beam]]; give one section for each beam");
    deck->beams = file.beams;
    for (int b = 0; b < file.beams && !bad; b++)
        bad = deck_section(&file, "beam", b, &deck->beam[b]);
    return bad ? bad : deck_whole(&file, deck);
}

/* --- the deck as text, as the run keeps it ---------------------------------------------------- */

/* The shortest text that reads back as the same number, as Python writes it: the example in one
   language goes on with a run that was begun in another, if their decks say the same. */
static void deck_number(double value, char *out, size_t room)
{
    int digits = 1, exponent;
    do
        snprintf(out, room, "%.*e", digits - 1, value);
    while (strtod(out, NULL) != value && ++digits <= 17);
    exponent = atoi(strchr(out, 'e') + 1);
    if (exponent >= -4 && exponent < 16)
        snprintf(out, room, "%.*f", exponent < digits - 1 ? digits - 1 - exponent : 1, value);
}

/* Called for each key of the deck with the text of its value. */
typedef void deck_visit(void *user, const char *key, const char *value);

static void deck_visit_f64(deck_visit *visit, void *user, const char *key, double value)
{
    char text[40];
    deck_number(value, text, sizeof text);
    visit(user, key, text);
}

static void deck_visit_i64(deck_visit *visit, void *user, const char *key, int64_t value)
{
    char text[40];
    snprintf(text, sizeof text, "%" PRId64, value);
    visit(user, key, text);
}

static void deck_visit_beam(const struct beam *beam, deck_visit *visit, void *user)
{
    char key[DECK_NAME + 32];
#define KEY(word) (snprintf(key, sizeof key, "%s.%s", beam->name, word), key)
    deck_visit_f64(visit, user, KEY("plasma_frequency"), beam->plasma_frequency);
    deck_visit_f64(visit, user, KEY("charge_to_mass"), beam->charge_to_mass);
    deck_visit_f64(visit, user, KEY("drift"), beam->drift);
    deck_visit_i64(visit, user, KEY("mode"), beam->mode);
    deck_visit_f64(visit, user, KEY("displacement"), beam->displacement);
    deck_visit_i64(visit, user, KEY("count"), beam->count);
#undef KEY
}

/* Visits all keys in order. */
static void deck_flat(const struct deck *deck, deck_visit *visit, void *user)
{
    deck_visit_f64(visit, user, "length", deck->length);
    deck_visit_i64(visit, user, "grid", deck->grid);
    deck_visit_f64(visit, user, "dt", deck->dt);
    deck_visit_i64(visit, user, "steps", deck->steps);
    deck_visit_i64(visit, user, "snapshot_every", deck->snapshot_every);
    for (int b = 0; b < deck->beams; b++)
        deck_visit_beam(&deck->beam[b], visit, user);
    deck_visit_f64(visit, user, "field_amplitude", deck->field_amplitude);
    deck_visit_i64(visit, user, "field_mode", deck->field_mode);
    deck_visit_f64(visit, user, "field_limit", deck->field_limit);
}

#endif
