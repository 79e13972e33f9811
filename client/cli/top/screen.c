/* SPDX-License-Identifier: Apache-2.0 */
/*
 * screen.c - draws the live view of `warm top`, and obeys its keys. commands/top.c calls it.
 *
 *     warm top - warmd 0.1.0 at SOCKET, up 3h
 *     hits          1234    12.0/s  ▁▂▅█     one line for each counter
 *     store, workers, requests under way
 *     KIND  HITS  MISSES …                   the chosen table
 *     q quit …                               the keys, or the filter that is being typed
 *
 * Thread: main. Memory: ncurses' own.
 */
#include <assert.h>
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curses.h>

#include "client/cli/top/top.h"

#define NAME_MIN 12 /* columns of the terminal */
#define NAME_MAX 24
#define CELL_MIN 8
#define CELL_MAX 11
#define SPARK_AT 36 /* column of the first bar */
#define CTRL_L 12
#define ESCAPE 27

static bool utf8;   /* the terminal takes the bars of a sparkline */
static bool typing; /* the filter is being typed */
static SCREEN *screen;

bool screen_open(void)
{
    const char *term = getenv("TERM");
    if (!term || strcmp(term, "dumb") == 0)
        return false;
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C");
    utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    screen = newterm(NULL, stdout, stdin);
    if (!screen)
        return false;
    set_escdelay(100);
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    return true;
}

void screen_close(void)
{
    if (!screen)
        return;
    endwin();
    delscreen(screen);
    screen = NULL;
}

/* ---- drawing ---- */

static void draw_spark(const struct top *t, enum top_counter what, int width)
{
    static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char letters[] = "_.:-=+*#";
    double most = 0;
    for (int i = 0; i < width; i++)
        if (top_rate(t, what, (size_t)i) > most)
            most = top_rate(t, what, (size_t)i);
    for (int i = width; i-- > 0;) {
        if ((size_t)i >= t->n_samples)
            continue;
        double rate = top_rate(t, what, (size_t)i);
        int level = rate > 0 ? (int)(rate / most * 7) : 0;
        assert(level >= 0 && level < 8);
        if (utf8)
            addstr(bars[level]);
        else
            addch((chtype)letters[level]);
    }
}

static void draw_counters(const struct top *t, int *y)
{
    static const char *const titles[] = {
#define X(name, title) title,
        TOP_COUNTER_LIST(X)
#undef X
    };
    int width = COLS - SPARK_AT - 1;
    if (width > (int)TOP_RATES)
        width = TOP_RATES;
    for (int i = 0; i < TOP_COUNTERS; i++) {
        char total[UNITS_TEXT], rate[UNITS_TEXT];
        bool is_time = i == TOP_saved_ms;
        top_number_text(is_time ? TOP_MS : TOP_COUNT, t->counter[i], total);
        snprintf(rate, sizeof rate, is_time ? "%.1f s/s" : "%.1f/s",
                 top_rate(t, i, 0) / (is_time ? 1e3 : 1));
        mvprintw(*y, 0, "%-10s %10s %11s", titles[i], total, rate);
        move((*y)++, SPARK_AT);
        draw_spark(t, i, width);
    }
}

/* Draws a line, as far as it fits. */
static void draw_line(int y, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void draw_line(int y, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mvaddnstr(y, 0, text, COLS);
}

/* Returns the width of a column of numbers: all columns fit, and the names get the rest. */
static int cell_width(const struct top_layout *layout)
{
    int n = (int)layout->n_columns - 1, fits = n ? (COLS - NAME_MIN) / n : CELL_MAX;
    return fits < CELL_MIN ? CELL_MIN : fits > CELL_MAX ? CELL_MAX : fits;
}

static void draw_table(struct top *t, int *y)
{
    const struct top_layout *layout = &top_layouts[t->table];
    size_t sort = t->sort[t->table];
    int cell = cell_width(layout), name = COLS - cell * ((int)layout->n_columns - 1);
    name = name < 0 ? 0 : name > NAME_MAX ? NAME_MAX : name;
    attron(A_REVERSE);
    mvhline(*y, 0, ' ', COLS);
    for (size_t i = 0; i < layout->n_columns; i++) {
        char title[NAME_MAX];
        snprintf(title, sizeof title, "%s%s", i == sort ? "*" : "", layout->column[i].title);
        if (i == 0)
            mvprintw(*y, 0, "%-*.*s", name, name, title);
        else
            printw(" %*.*s", cell - 1, cell - 1, title);
    }
    attroff(A_REVERSE);
    (*y)++;
    top_fill_rows(t);
    for (size_t r = 0; r < t->n_rows && *y < LINES - 1; r++, (*y)++) {
        const struct top_row *row = &t->row[r];
        mvprintw(*y, 0, "%-*.*s", name, name, row->name);
        for (size_t i = 1; i < layout->n_columns; i++) {
            char text[UNITS_TEXT];
            top_number_text(layout->column[i].unit, row->number[i], text);
            printw(" %*.*s", cell - 1, cell - 1, text);
        }
    }
}

void screen_draw(struct top *t)
{
    char up[UNITS_TEXT];
    int y = 0;
    erase();
    top_number_text(TOP_MS, t->uptime_s * 1e3, up);
    attron(A_BOLD);
    draw_line(y, "warm top - %s at %s, up %s", t->remote.w->conn.daemon, t->remote.w->socket, up);
    attroff(A_BOLD);
    y = 2;
    draw_counters(t, &y);
    char size[UNITS_TEXT], most[UNITS_TEXT];
    top_number_text(TOP_BYTES, t->bytes, size);
    top_number_text(TOP_BYTES, t->max_bytes, most);
    draw_line(y++, "store      %.0f entr%s, %s of %s; hits take %.0f us, 99 %%: %.0f us",
              t->entries, t->entries == 1 ? "y" : "ies", size, most, t->hit_us_p50, t->hit_us_p99);
    draw_line(y++, "workers    %.0f of %.0f busy, %.0f queued; being made: %u, waiting: %u",
              t->busy, t->workers, t->queued, t->n_making, t->n_waiting);
    y++;
    draw_table(t, &y);
    if (typing)
        mvprintw(LINES - 1, 0, "filter: %s_", t->filter);
    else
        mvprintw(LINES - 1, 0, "q quit  Tab table  s sort  r reverse  / filter%s%s",
                 *t->filter ? ": " : "", t->filter);
    refresh();
}

/* ---- keys ---- */

static enum top_key obey(struct top *t, int c)
{
    size_t *sort = &t->sort[t->table];
    switch (c) {
    case 'q': return TOP_QUIT;
    case '\t': t->table = (t->table + 1) % TOP_TABLES; break;
    case KEY_BTAB: t->table = (t->table + TOP_TABLES - 1) % TOP_TABLES; break;
    case 's':
    case KEY_RIGHT: *sort = (*sort + 1) % top_layouts[t->table].n_columns; break;
    case KEY_LEFT: *sort = (*sort ? *sort : top_layouts[t->table].n_columns) - 1; break;
    case 'r': t->reversed = !t->reversed; break;
    case '/': typing = true; break;
    case ESCAPE: t->filter[0] = '\0'; break;
    case CTRL_L: clearok(curscr, TRUE); break;
    default: break;
    }
    return TOP_REDRAW;
}

enum top_key screen_key(struct top *t, int wait_ms)
{
    timeout(wait_ms);
    int c = getch();
    if (c == ERR)
        return TOP_NO_KEY;
    if (!typing)
        return obey(t, c);
    size_t len = strlen(t->filter);
    assert(typing && len < sizeof t->filter);
    if (c == '\n' || c == '\r' || c == KEY_ENTER)
        typing = false;
    else if (c == ESCAPE)
        typing = false, t->filter[0] = '\0';
    else if ((c == KEY_BACKSPACE || c == 127 || c == '\b') && len)
        t->filter[len - 1] = '\0';
    else if (c >= ' ' && c < 127 && len + 1 < sizeof t->filter)
        t->filter[len] = (char)c, t->filter[len + 1] = '\0';
    return TOP_REDRAW;
}
