/* A library that is no plug-in. */
int kvgold_no_symbol(void);
int kvgold_no_symbol(void)
{
    return 0;
}
